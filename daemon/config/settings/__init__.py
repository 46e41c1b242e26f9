"""Sections of the configuration that several capabilities use. A capability's ``settings`` has its own
sections.
"""
