"""Splits raw JSON rows into typed columns in one parse, and defines how data files hold these columns."""
