"""Files of both clusters: locations and their checks (``paths``),
file systems behind one port, and verified copies of source files.

The package knows no metastore, and no event beyond ``SourceFile``. See ``DESIGN.md``.
"""
