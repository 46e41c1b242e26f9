"""How the process runs: loops (``loops``), child processes, signals and logs.

``child`` and ``child_loop`` run a child process. ``inbox`` takes requests from commands on the same machine.
"""
