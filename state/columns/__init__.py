"""Columns of flat event tables: keys, types, slots, and what decides about them. See DESIGN.md."""
