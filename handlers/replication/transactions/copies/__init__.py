"""The files of transactions: those that a commit shows, those that Hive's write events leave out, and their
copies.
"""
