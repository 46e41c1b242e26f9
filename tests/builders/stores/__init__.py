"""What every ordered store has to do, and HBase in memory."""
