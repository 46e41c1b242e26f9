"""The contract of every ordered store, as tests, and HBase in memory."""
