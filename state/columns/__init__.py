"""Columns of flat event tables: keys, types, slots, and what decides about them. See DESIGN.md.

``asked`` → ``demand`` (which keys are wanted; ``collapsing``) and ``sniffing`` → ``observations`` (what was seen of them) meet in
``evolution``, which leads from a ``Layout`` of ``slots`` to the next by ``rules``; ``comments`` keeps a layout in the table itself.
"""
