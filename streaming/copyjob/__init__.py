"""Copies many files with a Spark job: ``job`` runs in the driver, ``share`` in the executors. See
``DESIGN.md``.
"""
