"""The assembly of the daemon from all capabilities: its command line, its HTTP application and its jobs."""
