"""Compares replication with Hive's own REPL DUMP and REPL LOAD, and with bare calls of the same metastores.

A Kafka broker, two Hive 4 metastores and two SQL engines run on the same machine and use its cores.
``TIDELINE_STACK`` names the ``endpoints.json`` of a running stack; otherwise one is started. Both replicate
the same source database, each into its own target database. Times are wall times.
"""
