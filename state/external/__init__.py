"""Rules for the files of external tables: the directories to copy, and the files that differ."""
