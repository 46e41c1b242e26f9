"""What runs on Spark: flat event tables and bulk copies. See ``DESIGN.md``."""
