"""The files of external tables:
copied by comparing directories in cycles, because no event announces them.
"""
