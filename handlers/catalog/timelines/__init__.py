"""Timelines as a follower of the catalog, and writing them back into table properties.

``rules`` decides which tables have timelines, ``timeline_follower`` keeps them up to date. ``publisher``
writes them into table properties through ``property_writer``; ``drift`` compares them with the source.
"""
