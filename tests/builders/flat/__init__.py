"""Flat tables: their input, settings and layouts, fakes of Spark's surroundings, and naive readers."""
