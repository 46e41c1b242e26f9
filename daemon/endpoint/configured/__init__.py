"""An endpoint of a configured source:
its section, its answers from the source's partition index, and its process in the daemon.
"""
