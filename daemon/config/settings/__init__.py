"""Sections of the configuration that several capabilities use. Those of one capability are in its own ``settings``."""
