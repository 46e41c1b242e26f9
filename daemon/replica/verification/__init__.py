"""Verification of replicas: ``tideline verify``, and the sampler that verifies continuously."""
