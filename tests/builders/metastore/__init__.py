"""Structs with random content, and a metastore that gives scripted answers."""
