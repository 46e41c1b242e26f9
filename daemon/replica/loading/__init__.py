"""Bootstraps and loads of single tables: what they report, when they run, and what they use."""
