"""Components as processes: start, readiness, stop, ports,
the Java runtime, and cleanup after the owner was killed.
"""
