"""What tests build their cases from: sample objects, fakes,
naive models, and the daemon and components that they run.

One package for each area of the product; ``components`` has the real components that several areas need. A
*contract* is a set of tests that every implementation of one port runs, the fake included. Benchmarks and
demos do not import this package; what they share with tests is in ``dev.fixtures``.
"""
