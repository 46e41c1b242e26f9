"""Replicas: one projection for each policy."""
