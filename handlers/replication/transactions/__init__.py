"""Replay of transactions: write ids, commits, aborts, and the files that they show."""
