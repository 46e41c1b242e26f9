"""The load of one table: its snapshot at the source, its files, and the table on the target."""
