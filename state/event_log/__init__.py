"""The event log as its readers see it: their positions, and the removal of unread events."""
