"""Reading the expressions that Hive's clients send to ``getPartitionsByExpr``. See DESIGN.md.

``expression_reader`` turns bytes into an expression tree; ``java_process`` is the Java process that does it.
"""
