"""The event log as its readers see it: what they have applied, and when unread events are removed."""
