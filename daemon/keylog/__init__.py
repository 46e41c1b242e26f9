"""The configured key log: settings, opening it, and answers about the keys of a flat table. Shared by
``flat`` and ``keys``.
"""
