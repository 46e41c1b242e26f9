"""An endpoint of a configured source: its settings, its answers from the partition index, and its process."""
