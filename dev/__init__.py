"""Programs and real components for developers and tests; not part of the wheel."""
