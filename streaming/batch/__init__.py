"""One micro-batch, from raw rows to published files, exactly once.

``runner`` advances a batch through its states, ``records`` stores them. ``key_demand`` and
``schema_evolution`` decide about columns; ``routing`` and ``staged_files`` write and publish the rows;
``sampling``, ``footers`` and ``observations`` determine the contents of the rows; ``watermark`` is the
progress in event time.
"""
