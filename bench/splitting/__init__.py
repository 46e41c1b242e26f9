"""Raw JSON split into typed columns: what it costs, and what it spares whoever asks.

Events of ``dev.fixtures.json_events`` (seeded, 1.6 KB each) as text files, in one Spark session with two cores. Costs are processor seconds,
user and system, of the JVM and of Python together, per GB (10^9 bytes) of raw JSON, everything included: reading, parsing, types,
misfits, ORC with zstd, footers read back. They are medians after the JVM has warmed up, which takes five to fifteen runs of 160 MB.
``split_300_keys`` takes the 300 commonest keys of the events in the types that their values ask for.

The query is the one of the article that flat tables come from, on 1.9 GB of JSON: four keys where two others have values given. Its
raw table is one JSON column in RCFile with Snappy, read with ``get_json_object``; the flat one has 50 keys in ORC with zstd. Both give
the same rows, which is checked.
"""
