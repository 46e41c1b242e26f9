"""One reader for all projections of a source.

``reader`` reads for them, and ``window`` holds the events that wait for each. A projection reads through its
``subscription``, or alone while its position is not in the window.
"""
