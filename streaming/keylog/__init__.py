"""The key log: who asked for which JSON key when, in a SQL database. See ``DESIGN.md``; users read docs/KEYS.md."""
