"""Files of the stream: list, move and write small records, wherever a table or a checkpoint is.

``port`` is the interface, ``hadoop`` its implementation for all file systems of Spark, ``local_disk`` the one for the driver's own disk,
and ``by_location`` chooses between the two.
"""
