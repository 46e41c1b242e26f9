"""Measures the cost of splitting raw JSON into typed columns, and the time that it saves for queries.

The seeded events of ``dev.fixtures.json_events`` (1.6 KB each) are text files, split in one Spark session
with two cores. Costs are processor seconds (user and system, of the JVM and Python together) per GB (10^9
bytes) of raw JSON. They include reading, parsing, types, misfits, ORC with zstd, and reading the footers
back. They are medians after the JVM has warmed up, which takes five to fifteen runs of 160 MB.
``split_300_keys`` splits the 300 most frequent keys of the events, with types that fit their values.

The query is from the article that flat tables are based on, with 1.9 GB of JSON: it reads four keys and
filters by two others. Its raw table is one JSON column in RCFile with Snappy, read with ``get_json_object``.
The flat table has 50 keys in ORC with zstd. The benchmark checks that both return the same rows.
"""
