"""What an operator does to a whole policy:
pause, promotion, retirement, pruning, and compactions of its target.
"""
