"""The partition index: partition filters answered by scans over ranges of sortable keys.

Purpose, guarantees and failure behaviour: DESIGN.md beside this file. For users: docs/PARTITIONS.md.

Layers inside, each knowing only those before it: ``types``, ``sortable`` (Hive's bytes), ``values`` (text to value), ``names``,
``keys`` (a partition's key); ``dialect``, ``tree``, ``words``, ``parsing`` (the filter language), ``like``; ``intervals``,
``bound``, ``binding`` (names and types); ``plans``, ``lowering``, ``residual``, ``explanation``; ``records``, ``change``,
``index`` (kept true by events, in a store), ``calls`` (the metastore's questions).
"""
