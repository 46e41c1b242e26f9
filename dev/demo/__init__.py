"""A demonstration of the replication: ``python -m dev.demo``, or ``make demo``."""
