"""The main job as a person can watch it: ``python -m dev.demo``, or ``make demo``."""
