"""Flat event tables: settings, loops that run a Spark driver for each table, answers, pages and commands."""
