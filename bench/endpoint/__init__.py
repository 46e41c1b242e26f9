"""The metastore endpoint in front of a real metastore (Hive 4.2, Derby on disk), compared with that metastore
itself.

Clients send the bytes of a call and wait for the last byte of its answer, on connections that stay open;
decoding is the client's own work and costs the same on both sides. Before it measures, the benchmark compares
the answers byte for byte, in the order of the partitions. Calls to both sides alternate. ``tideline serve``
runs as a separate process, as it does for users.

The run includes Waggle Dance 3.13.3, a proxy for the same protocol written in Java that forwards every call.
"""
