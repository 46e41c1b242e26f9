"""Verification:
compares source and target table by table and reports what differs, without changing either side.
"""
