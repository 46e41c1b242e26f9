"""Files of the stream: list, move and write small records, wherever a table or a checkpoint is.

``port`` is the interface, ``local_disk`` its implementation for the driver's own disk, and ``hadoop`` the one
for all file systems of Spark, with the choice between the two.
"""
