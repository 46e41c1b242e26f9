"""Timelines of a source: queries, answers, commands, and the branch of the catalog that maintains them."""
