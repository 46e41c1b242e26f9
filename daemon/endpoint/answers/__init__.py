"""Answers to the metastore's partition calls, from the partition index.

``table_access`` is the seam to the index: one snapshot of a table, or the reason to forward.
``index_answers`` is the responder.
"""
