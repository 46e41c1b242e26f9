"""Finds keys in SQL statements: ``parser`` turns a text into sqlglot's tree, and the other modules walk it.

``queries`` walks the statements of a script and the scopes of their queries, ``expressions`` follows values
back to raw columns, and ``scopes`` resolves names. Only this package uses sqlglot, and imports it for the
first text that needs a parser.
"""
