"""The metastore's calls about objects:
databases, tables, partitions, constraints, statistics and functions.
"""
