"""The partition index in a store: planning a filter, reading the ranges, and applying changes.

``scan_plans`` and ``key_ranges`` plan a filter, ``partition_index`` answers it and ``explanation`` describes how. ``records`` defines
what is stored, ``index_change`` changes it, ``repair`` removes leftovers. ``metastore_calls`` answers as the metastore does.
"""
