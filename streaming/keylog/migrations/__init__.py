"""The scripts that lead from an empty database to the newest schema, one file per version; run by ``streaming.keylog.migrator``."""
