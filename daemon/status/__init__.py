"""The status of the daemon as one value, and its output: HTTP, metrics, HTML page and command line."""
