"""Benchmarks: ``python -m bench.NAME [--quick] --json`` prints one report."""
