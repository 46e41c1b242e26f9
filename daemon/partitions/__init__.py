"""The partition index of a source:
queries, answers, their text and commands, and the branch of the catalog that keeps it.
"""
