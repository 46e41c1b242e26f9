"""The daemon's loops.

``loop`` runs one loop, ``retry_policy`` decides what follows from an error, and ``supervisor`` runs all
loops. ``heartbeat`` is a loop's view of its supervisor. ``turns`` runs many loops on a few threads.
"""
