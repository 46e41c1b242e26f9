"""Effects of events: decoding, and changes of metastores, files and the catalog. See ``DESIGN.md``."""
