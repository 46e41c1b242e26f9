"""Bootstraps and loads of single tables: their progress, their turns, and their resources."""
