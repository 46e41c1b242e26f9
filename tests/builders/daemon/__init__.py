"""The daemon: loops and statuses, the process, and an HTTP client."""
