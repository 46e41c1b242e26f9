"""The files of transactions: which ones a commit shows,
where Hive's write events leave some out, and their copies.
"""
