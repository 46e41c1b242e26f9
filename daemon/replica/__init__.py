"""Replicas: one projection for each policy, which applies the events of the source to the target."""
