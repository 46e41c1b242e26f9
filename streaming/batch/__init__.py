"""Processes one micro-batch, from raw rows to published files, exactly once.

``runner`` advances a batch through its states, and ``records`` stores them. ``key_demand`` and
``schema_evolution`` decide about columns; ``routing`` and ``staged_files`` write and publish the rows;
``sampling``, ``footers`` and ``observations`` find out which values the rows have; ``watermark`` is the
progress in event time.
"""
