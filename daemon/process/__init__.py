"""Runs what the daemon consists of: loops and their supervisor, child processes, lock, signals, logs."""
