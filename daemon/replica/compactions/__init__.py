"""Compactions of the target in the daemon's status: a loop for each target that reads them, and their section."""
