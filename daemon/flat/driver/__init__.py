"""The driver of a flat table as a child process: its command, its settings, and the queries that are read before it runs by hand."""
