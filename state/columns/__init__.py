"""Columns of flat event tables: which keys become columns,
of which type, in which slot and under which name. See DESIGN.md.

Two inputs meet in ``evolution``, which computes the next ``Layout`` of ``slots`` by the thresholds in
``rules``: the query demand (``requested_keys`` → ``demand``) and the observed values (``sniffing`` →
``observations``, whose ``types`` follow from evidence). The result is a list of ``changes``. ``names`` and
``slot_codec`` write a layout into the metastore table.
"""
