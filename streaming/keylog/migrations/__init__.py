"""The scripts that migrate an empty database to the newest schema, one file for each version; run by
``streaming.keylog.migrator``.
"""
