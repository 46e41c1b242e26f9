"""The queries of views: which databases they name, and their form on the target."""
