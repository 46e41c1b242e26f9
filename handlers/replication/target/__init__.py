"""The target database and its objects: their form, their cache, and the claim that permits changes."""
