"""SQL statements, parsed by sqlglot."""
