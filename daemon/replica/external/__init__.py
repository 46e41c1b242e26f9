"""Copies of the files of external tables, as the daemon runs and shows them."""
