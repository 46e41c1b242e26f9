"""The write events of a source that has no call for them, made from its log and its directories."""
