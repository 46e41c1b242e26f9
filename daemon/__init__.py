"""The process: command line, configuration, relay, consumer, supervision, HTTP. See ``DESIGN.md``."""
