"""The damage that untrusted clients and texts can do to a daemon: storms of connections while it replicates,
and records, requests and query texts that are crafted to need much memory.

Figures of memory are the largest resident size of a process, in MB (10^6 bytes). Each hostile input is read
in its own process, so that none hides behind another.
"""
