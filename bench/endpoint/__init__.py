"""Compares the metastore endpoint in front of a real metastore (Hive 4.2, Derby on disk) with that metastore.

Clients send the bytes of a call and wait for the last byte of its answer, on connections that stay open; they
do not decode it, because that costs the same on both sides. Before it measures, the benchmark compares the
answers byte for byte, in the order of the partitions. Calls to both sides alternate. ``tideline serve`` runs
as a separate process, as for users.

The run includes Waggle Dance 3.13.3, a proxy for the same protocol written in Java that forwards every call.
"""
