"""Flat event tables: settings, the loop that runs a Spark driver for each, answers, pages and commands."""
