"""Storage of the stream: lists, moves and writes files, wherever a table or a checkpoint is.

``port`` is the interface, ``local_disk`` implements it for the driver's own disk, and ``hadoop`` for all file
systems of Spark. ``hadoop`` also chooses between the two.
"""
