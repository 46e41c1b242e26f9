"""Timelines: which partitions of a table exist,
per time column and update period, and how they cover a range of time.

Purpose, guarantees and failure behaviour: DESIGN.md in this directory. For users: docs/TIMELINES.md.

Modules, each importing only from those before it:

- ``calendar_units`` and ``periods``: moments, partition values and their text;
- ``runs``: the set of ordinals behind every timeline;
- ``time_ranges``: partitions and ranges as callers pass them;
- ``table_properties``, ``storage_forms`` and ``timeline``: one timeline, and Lens' table properties;
- ``tiling`` and ``cover``: covering a range of time;
- ``sql_conditions``: a cover as a condition of a query;
- ``tables``: timelines of many tables, kept in a store.
"""
