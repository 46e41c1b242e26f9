"""``tideline status``: the status as text, its summary, and its health for scripts."""
