"""Following one source: events and listings become changes of tables and partitions, handed to the followers.

``ports`` is the interface of a follower; ``table_info`` is the vocabulary of both sides. ``table_states``
stores each table's progress, ``event_batch`` applies events (``partition_events`` those about partitions),
``loads`` reads tables from the metastore.
"""
