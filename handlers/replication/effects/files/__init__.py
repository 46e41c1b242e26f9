"""Files of tables without transactions: copies, moves, truncation and the leftovers of drops."""
