"""The queries of views: the databases that they name, and their form on the target."""
