"""Waiting over HTTP until a replica or a catalog has reached a state, by notification."""
