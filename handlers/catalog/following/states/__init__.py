"""The state of every table that the catalog follows: one stored value each."""
