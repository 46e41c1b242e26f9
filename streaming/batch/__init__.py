"""One micro-batch, from its rows to the table: planned, staged, published, recorded."""
