"""Flat event tables: their settings, the loop that runs a driver for each of them, their page and commands."""
