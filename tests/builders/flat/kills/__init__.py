"""Flat tables whose daemon, driver, JVM or executors are killed, and what is sent and checked meanwhile."""
