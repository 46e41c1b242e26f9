"""The store on HBase: for a partition index that outgrows one machine or has several readers.

Purpose, guarantees and failure behaviour: DESIGN.md next to this file. For users: docs/PARTITIONS.md, section
HBase.

Each module imports only those before it: ``layout`` (entries as cells, and conditions on them),
``gateway`` (the connection), ``redo_log`` (a transaction's durable form and its application),
``transaction``, ``store``.
"""
