"""Checks of sources for ``config check --live``: metastores, topics, transactions and the relay."""
