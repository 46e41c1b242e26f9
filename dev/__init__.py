"""What developers and tests run beside the product; not part of the wheel."""
