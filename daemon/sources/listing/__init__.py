"""Makes the write events of a source that has no call for them, from its log and its directories."""
