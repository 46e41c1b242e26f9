"""The file systems: the port of ``handlers.files.filesystems`` on system calls, on HDFS and on object
stores; ``schemes`` maps the schemes of URIs to them.
"""
