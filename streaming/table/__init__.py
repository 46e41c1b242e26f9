"""The flat table in a metastore: read, altered, its hours added, switched and dropped. See DESIGN.md."""
