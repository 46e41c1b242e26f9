"""Copies of the files of external tables: how the daemon runs and shows them."""
