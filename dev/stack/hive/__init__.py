"""Hive clusters: metastore and SQL engine (``servers``) with their ``settings``,
SQL sessions, and metastores of older Hive versions.

``java/`` holds our Java classes, which ``java_build`` compiles; ``schema/`` holds the tables that Hive's
object mapping lacks.
"""
