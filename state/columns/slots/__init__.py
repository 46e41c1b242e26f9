"""Slots: the physical columns of a flat table, and how keys are assigned to them."""
