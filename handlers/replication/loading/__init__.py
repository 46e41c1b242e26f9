"""Loading: copies whole tables of the source as of one event id,
for bootstraps, returning tables and repairs.
"""
