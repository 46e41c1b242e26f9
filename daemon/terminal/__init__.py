"""The base of all commands: the application, common options, and the output of values, tables and errors."""
