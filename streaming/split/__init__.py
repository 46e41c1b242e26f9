"""Splits raw JSON rows into typed columns in one parse, and defines the columns of data files."""
