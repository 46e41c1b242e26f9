"""The real components that tests, demo and benchmarks run against, as processes on 127.0.0.1. See DESIGN.md beside this file."""
