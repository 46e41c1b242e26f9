"""Replicas without a topic in between, their sources and targets, and replays that are killed."""
