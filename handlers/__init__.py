"""What an event does: decoding, and the effects on metastores, files and the catalog. See ``DESIGN.md``."""
