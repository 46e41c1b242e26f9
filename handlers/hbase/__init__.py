"""The store on HBase: for a partition index that outgrows one machine, or is read by several.

Purpose, guarantees and failure behaviour: DESIGN.md beside this file. For users: docs/PARTITIONS.md, section HBase.

Layers inside, each knowing only those before it: ``layout`` (entries as cells), ``filters`` (conditions as HBase's filter
language), ``gateway`` (the connection), ``writes`` (what a transaction will do, and its durable form), ``applying`` (doing it
in an order that a crash cannot hurt), ``store`` with ``transaction``.
"""
