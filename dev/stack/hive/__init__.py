"""Hive clusters: metastore and SQL engine (``servers``) with their ``settings``, SQL sessions, and metastores
of older Hive versions.

``java/`` contains this project's Java classes, which ``java_build`` compiles; ``schema/`` the tables that
Hive's object mapping lacks.
"""
