"""Measures the effect of untrusted clients and texts on a daemon: storms of connections while it replicates,
and records, requests and query texts that are crafted to need much memory.

Figures of memory are the peak resident size of a process, in MB (10^6 bytes). Each hostile input is read in
its own process, so that a large one does not hide a smaller one.
"""
