"""What exists at the source: partition changes out of events, handed to followers in the transaction of the position.

Purpose, guarantees and failure behaviour: DESIGN.md beside this file. ``projection`` is what the daemon drives; ``seen`` and
``follower`` are the vocabulary between it and those who want to know (``timelines``, ``partitions``).
"""
