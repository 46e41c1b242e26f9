"""Verified copies: ``copies`` makes one, ``pool`` many at once,
and ``jobs`` has other processes make them.
"""
