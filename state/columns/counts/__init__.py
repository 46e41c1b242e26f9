"""Counts of what rows contain:
fill rates, values that do not fit their column, and when they lead to a promotion.
"""
