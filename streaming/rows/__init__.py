"""Rows of Hive tables through Spark:
how many a reader sees, and a hash of them that does not depend on their order.
"""
