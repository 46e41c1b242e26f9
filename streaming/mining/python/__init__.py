"""Keys in Python programs: SQL in strings, and PySpark's functions on columns."""
