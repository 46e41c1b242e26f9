"""The partition index: planning a filter, reading the ranges, and applying changes, over any store.

``scan_plans`` and ``access_paths`` plan a filter, ``partition_index`` answers it, ``explanation`` describes
how. ``records`` defines the stored form, ``index_change`` changes it. ``lookups`` finds partitions as the
metastore's calls name them.
"""
