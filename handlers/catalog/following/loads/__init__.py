"""Reading tables from the metastore while events are applied.

``loader`` selects the table to load next and handles failures, ``steps`` loads it, ``pauses`` says when.
``listings`` reads from the metastore, ``table_loads`` turns that into what each follower stores,
``missed_events`` keeps the events of the time in between, and ``column_checks`` finds out whether a table
must be loaded again after columns were appended.
"""
