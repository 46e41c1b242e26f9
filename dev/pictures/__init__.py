"""Draws the pictures of the documentation (``make pictures``)."""
