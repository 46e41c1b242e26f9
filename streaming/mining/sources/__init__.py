"""Query sources: one module for each kind of storage of query texts.

``source`` defines the protocol. ``job_history``, ``spark_event_log`` and ``sql_files`` read files through
``directory``, which also has their position; ``trino_topic`` reads Kafka, and ``standard_input`` reads a
stream without a position.
"""
