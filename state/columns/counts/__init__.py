"""Counts of row contents: fill rates, values that do not fit their column, and the promotions that they lead
to.
"""
