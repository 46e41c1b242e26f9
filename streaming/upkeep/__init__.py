"""Maintenance of a flat table between batches.

``maintenance`` runs the due tasks: changes of column types (``type_changes``), sealing of hours, dropping and
deleting. ``rewriting`` replaces the files of an hour on behalf of these tasks and of ``backfill``, which
fills past hours from the raw table.
"""
