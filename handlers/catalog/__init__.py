"""The catalog: which tables and partitions exist at a source,
from its events and listings, for timelines and the partition index.

Purpose, guarantees and failure behaviour: DESIGN.md next to this file. The daemon drives ``projection``. It
consists of three packages: ``following`` (events and loads, the same for every follower), ``timelines`` and
``index`` (the two followers and their answers).
"""
