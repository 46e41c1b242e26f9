"""Reading the expressions that Hive's clients send to ``getPartitionsByExpr``. See DESIGN.md.

``expression_reader`` turns bytes into an expression tree, by the classes that ``hive_objects`` knows and the
format that ``kryo_input`` reads.
"""
