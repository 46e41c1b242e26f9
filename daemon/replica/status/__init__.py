"""Sections of the daemon's status about replicas: loads, tables that left, and copied files."""
