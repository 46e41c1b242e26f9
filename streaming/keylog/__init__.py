"""The key log: a SQL database of which user requested which JSON key on which day. Needs SQLAlchemy, not
Spark.

``log`` records requests and positions of query sources, ``log_reader`` reads them. ``key_rules`` stores
users' decisions about keys, and ``table_snapshots`` the state of flat tables for display; ``retention``
deletes old rows. Below them are ``database`` (address, transactions, errors), ``schema``, ``migrator`` with
``migrations``, and ``records`` (stored forms of values).

An import contract ensures that this package imports neither Spark nor the packages for flat tables. Design:
``DESIGN.md``; for users: docs/KEYS.md.
"""
