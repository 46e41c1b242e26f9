"""The metastore endpoint (``tideline serve``): accepts Thrift clients of any Hive version in front of one
metastore.
"""
