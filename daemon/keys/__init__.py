"""The key log: which keys users query, the miner that finds them in query texts, and the commands."""
