"""The metastore endpoint: accepts Thrift clients of any Hive version in front of one metastore (``tideline
serve``).
"""
