"""The plan of one batch of events: what may be left out, joined,
or made ahead of its turn, and where the position is recorded in between.

Every rule is a function of the events alone, or of the events and what the state knows of their tables. Only
``lanes`` has threads.
"""
