"""Measures events from the source to the target, step by step and end to end, on real components.

A Kafka broker and two Hive 4 metastores run on the same machine and use part of its cores. ``TIDELINE_STACK``
names the ``endpoints.json`` of a running stack; otherwise one is started. Times are wall times unless a case
says otherwise.
"""
