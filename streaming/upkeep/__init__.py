"""What happens to a flat table between batches: sealing, rewriting, backfill, retention."""
