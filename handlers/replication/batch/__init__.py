"""The plan of one batch of events: events to leave out, join, or apply ahead of their turn, and the points in
between that record the position.

Every rule is a function of the events alone, or of the events and the state of their tables. Only ``lanes``
has threads.
"""
