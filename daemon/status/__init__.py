"""What the daemon reports about itself, and the ways to see it: HTTP, metrics, page, command line."""
