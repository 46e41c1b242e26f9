"""Runs components as processes: start, readiness, stop, ports, the Java runtime, and cleanup after a killed
owner.
"""
