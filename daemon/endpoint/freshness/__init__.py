"""Opens the index only where it has applied the source's newest event."""
