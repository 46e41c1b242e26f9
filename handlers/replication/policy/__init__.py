"""What a policy replicates, and how:
its databases and tables, kinds that cannot be replicated, and names in events.
"""
