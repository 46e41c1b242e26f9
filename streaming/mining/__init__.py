"""Mining: finds the keys of raw tables' JSON that queries request,
and records them in the key log. Needs no Spark.

``miner`` mines the query texts of a source (``sources``). SQL is parsed (``sql``), Spark plans are read
(``spark_plan``), and texts that no parser accepts are scanned (``scanner`` with ``aliases``). All three trace
values with ``lineage``, know ``json_functions``, find tables through ``raw_tables`` and share the values in
``model``. The scanner reads ``tokens``, from which fingerprints of queries are made, too.

An import contract ensures that this package imports neither Spark nor the packages for flat tables. Design:
``DESIGN.md``; for users: docs/MINING.md.
"""
