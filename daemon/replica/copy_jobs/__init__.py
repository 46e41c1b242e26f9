"""Copies of many files as Spark jobs, each driven by a child process (``streaming.copyjob``)."""
