"""Verification: compares source and target table by table and reports the differences, without changing
either side.
"""
