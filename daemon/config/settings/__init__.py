"""Sections of the configuration that several capabilities use; those of one are in its own ``settings``."""
