"""Files of tables without transactions: copies, moves, truncation and what drops leave."""
