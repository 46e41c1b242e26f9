"""Starts the real components that tests, demos and benchmarks use, as processes on 127.0.0.1. See
``DESIGN.md``.
"""
