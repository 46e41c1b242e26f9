"""Probes, metrics, the status page and the JSON API: read-only, in a thread of its own."""
