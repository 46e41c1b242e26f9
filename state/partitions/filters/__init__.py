"""The metastore's filter language: from text to conditions on the bytes of partition keys.

In the order of use: ``dialect``, ``lexer``, ``parser`` with ``syntax_tree``, ``like_pattern``, then ``binder``, which turns every
comparison into a set of ``intervals`` under ``conditions``. ``hive_expressions`` reads Hive's expression trees as filters.
"""
