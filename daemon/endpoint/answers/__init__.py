"""Answers to the metastore's partition calls, from the partition index.

``table_access`` is the port to the index: it returns a snapshot of a table, or the reason to forward.
``index_answers`` is the responder.
"""
