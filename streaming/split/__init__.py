"""Raw JSON rows split into typed columns."""
