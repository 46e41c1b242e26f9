"""The daemon's loops.

``loop`` runs one of them, ``retry_policy`` decides on an error, and ``supervisor`` keeps all of them.
``heartbeat`` is a loop's view of its supervisor. ``turns`` runs many loops on a few threads.
"""
