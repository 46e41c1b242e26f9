"""The catalog of a source: one projection that keeps its timelines and its partition index."""
