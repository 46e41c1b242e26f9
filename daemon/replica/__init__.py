"""Replicas: one projection for each policy, which applies the source's events to the target."""
