"""Copies of many files as a Spark job:
``job`` runs in the driver, ``share`` in the executors. See ``DESIGN.md``.
"""
