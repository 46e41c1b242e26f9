"""Verification of replicas:
the command ``tideline verify``, and the sampler that does the same continuously.
"""
