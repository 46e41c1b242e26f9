"""``tideline status``: the status as text, as a summary, and as a health check for scripts."""
