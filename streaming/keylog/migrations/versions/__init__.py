"""The versions, in the order of their numbers. A script that was released never changes."""
