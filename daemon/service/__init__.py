"""Assembles the daemon: the only package that knows all capabilities. It builds the command line, the HTTP application and the jobs."""
