"""Measures the partition index in memory and in SQLite. It plans filters before the clock starts, and answers
them with keys, without objects.

The table has the partition columns (ds date, hr int, region string), with 24 hours of 20 regions per day: 480
partitions a day. It has a million partitions in memory, and ten million in SQLite (2.8 GB of disk, which
takes some minutes); with ``--quick``, a hundred thousand each. Times are processor times. Other cases run the
same filters on a real metastore, and a hundred thousand partitions on HBase.
"""
