"""How the process runs: loops and their supervisor, child processes, signals and logs.

``supervisor`` keeps all loops, ``loop`` runs one of them, and ``retry_policy`` decides whether a failed one
is restarted; ``heartbeat`` is what a loop knows of them. ``turns`` runs many loops on a few threads.
``child`` and ``child_loop`` run a child process. ``inbox`` takes requests from commands on the same machine.
"""
