"""The entries of single tables in the state of a policy:
quarantine, loads, and what else is known of them.
"""
