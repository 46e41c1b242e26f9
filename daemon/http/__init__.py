"""The HTTP server, endpoints of queries, and elements of HTML pages."""
