"""Probes and metrics, answered by a process that no work of the daemon delays."""
