"""The partition index: answers partition filters by scanning ranges of sortable keys.

Purpose, guarantees and failure behaviour: DESIGN.md next to this file. For users: docs/PARTITIONS.md.

Three packages, each importing only those before it: ``keys`` (partitions as sortable bytes), ``filters`` (the
filter language, down to conditions on those bytes), ``index`` (planning, storing, answering).
"""
