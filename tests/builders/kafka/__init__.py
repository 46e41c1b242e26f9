"""Notification logs and topics in memory, and the relay with its readers on a real broker."""
