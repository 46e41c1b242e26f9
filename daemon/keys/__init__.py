"""The key log: the keys that users query, the miner that finds them in query texts, and the commands."""
