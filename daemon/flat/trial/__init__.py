"""The trial (``tideline split try``): a flat table of a user's own files, without configuration."""
