"""Timelines of many tables, kept in a store and updated by events.

``projection.Timelines`` holds the timelines of every followed table in memory. A ``change.TimelineChange``
applies added and dropped partitions within the caller's store transaction: timelines and position commit
together. Modules, each importing only from those before it: ``settings`` (how to read a table's values),
``records`` (keys and values in the store), ``followed`` (one table), ``change``, ``projection`` and ``facts``
(tables that hold the same data).
"""
