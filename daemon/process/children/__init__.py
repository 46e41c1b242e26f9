"""Child processes of the daemon: start, progress, end, and what happens when the parent dies."""
