"""What an event does: decoding it, and its effects on metastores, files and the catalog. See ``DESIGN.md``."""
