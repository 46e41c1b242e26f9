"""The status of the daemon as one value, and its views: HTTP, metrics, HTML page and command line."""
