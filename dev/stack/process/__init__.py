"""Components as processes: start, readiness, stop, their ports, the Java they run on, and cleanup when their owner is killed."""
