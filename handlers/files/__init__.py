"""File systems behind one port (``filesystems``), and verified copies of source files (``copies``, run by ``pool``).

The package knows no metastore, and no event beyond ``SourceFile``. See ``DESIGN.md``.
"""
