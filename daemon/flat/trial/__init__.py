"""The first try: a flat table of a user's own files, without configuration."""
