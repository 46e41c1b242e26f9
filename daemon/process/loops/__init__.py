"""The daemon's loops.

``loop`` runs one of them, ``retry_policy`` decides what follows from an error, and ``supervisor`` keeps all
of them. ``heartbeat`` is what a loop knows of its supervisor. ``turns`` runs many loops on a few threads.
"""
