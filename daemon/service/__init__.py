"""The assembly of the daemon. It alone knows all capabilities, and builds the command line, the HTTP application and the jobs from them."""
