"""Sections of the daemon's status about replicas:
points, copies, loads, tables that left, and compactions.
"""
