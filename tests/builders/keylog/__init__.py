"""Key logs, the contract that every database has to meet, and query texts to mine."""
