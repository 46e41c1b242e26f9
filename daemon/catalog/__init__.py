"""The catalog of a source: one projection that maintains its timelines and its partition index."""
