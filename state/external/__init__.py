"""Rules for the files of external tables: which directories are copied, and which files differ."""
