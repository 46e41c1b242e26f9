"""Freshness: answers from the index only if it has applied the source's newest event."""
