"""An operator's actions on a whole policy: pause, promotion, retirement, pruning, and compactions of its
target.
"""
