"""The broker as the daemon uses it: connections, the topic of a source, the search for an offset, dead letters."""
