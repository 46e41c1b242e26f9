"""Real components that tests of several areas start or require."""
