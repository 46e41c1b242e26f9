"""Policies over HTTP: their actions and their pages."""
