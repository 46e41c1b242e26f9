"""The main job of Tideline as a demonstration: ``python -m dev.demo``, or ``make demo``."""
