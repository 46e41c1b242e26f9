"""Keys out of query texts: which parts of a raw table's JSON people ask for. Users read docs/MINING.md."""
