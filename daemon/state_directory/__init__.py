"""The files in ``state.dir``: stores, the lock, their backups and checks, and the space left."""
