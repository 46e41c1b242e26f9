"""A flat event table as a demonstration: ``python -m dev.flat_demo``, or ``make demo-flat``."""
