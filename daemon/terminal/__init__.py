"""The shared part of commands: the application, common options, and how values, tables and failures are
printed.
"""
