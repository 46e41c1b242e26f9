"""The shared part of commands: the application, common options, and the output of values, tables and
failures.
"""
