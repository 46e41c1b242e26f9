"""Timelines: which partitions of a table exist, per time column and update period, and how they cover a range of time.

Purpose, guarantees and failure behaviour: DESIGN.md beside this file. For users: docs/TIMELINES.md.

Layers inside, each knowing only those before it: ``grains`` and ``formats`` (calendar and text), ``periods``, ``runs`` (the
set), ``values`` (what callers hand in), ``properties`` and ``forms`` (Lens' table properties), ``timeline``,
``migration``; ``levels``, ``fewest``, ``choice`` and ``cover`` (ranges of time), ``where`` (SQL); ``tables``,
``ledger``, ``followed``, ``loading``, ``change`` and ``projection`` (kept true by events, in a store), ``facts``; ``picture`` (one line for people).
"""
