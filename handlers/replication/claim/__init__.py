"""The claim of a target database by one process, and the position recorded in it."""
