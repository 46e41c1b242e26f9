"""The partition index in memory and in SQLite: filters planned before the clock runs, answered as keys (no objects).

A table of (ds date, hr int, region string) with 24 hours of 20 regions a day: 480 partitions a day. Times are processor times.
A million partitions in
memory, ten million in SQLite (2.8 GB of disk, some minutes); ``--quick`` takes a hundred thousand of each. The same filters to
a real metastore are in ``metastore``, a hundred thousand partitions on HBase in ``hbase``.
"""
