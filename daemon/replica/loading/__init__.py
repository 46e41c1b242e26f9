"""Bootstraps and loads of single tables: their reports, their turns, and their resources."""
