"""One reader for all projections of a source.

``reader`` reads for them, and ``window`` holds what it has read for each. A projection reads through its
``subscription``, or alone while its position is not in the window.
"""
