"""Mining: finds the keys of raw tables' JSON that queries request, and records them in the key log. Needs no
Spark.

``miner`` mines the query texts of a source (``sources``). ``sql`` parses SQL, ``spark_plan`` reads Spark
plans, and ``scanner`` with ``aliases`` reads texts that no parser accepts. All three trace values with
``lineage``, recognize the functions in ``json_functions``, find tables through ``raw_tables`` and use the
values in ``model``. The scanner and the fingerprints of queries read ``tokens``.

An import contract ensures that this package imports neither Spark nor the packages for flat tables. Design:
``DESIGN.md``; for users: docs/MINING.md.
"""
