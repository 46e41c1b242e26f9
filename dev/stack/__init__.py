"""The real components that tests, demos and benchmarks run against,
as processes on 127.0.0.1. See ``DESIGN.md``.
"""
