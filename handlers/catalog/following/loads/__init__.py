"""Reading tables from the metastore while the catalog applies events.

``loader`` selects the table to load next and handles failures, ``steps`` loads it, ``pauses`` says when.
``listings`` reads from the metastore, ``table_loads`` turns that into the entries of each follower,
``missed_events`` keeps the events of the time in between, and ``column_checks`` decides whether a table with
appended columns needs another load.
"""
