"""The metastore's filter language: from text to conditions on the fields of partition keys.

In the order of use: ``dialect`` (the allowed text), ``lexer``, ``parser`` with ``syntax_tree`` and
``like_pattern``, then ``binder``, which checks the tree against a table's columns and turns every comparison
into ``intervals`` of fields under ``conditions``. ``hive_expressions`` translates Hive's expression trees
into the same syntax tree.
"""
