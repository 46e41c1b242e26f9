"""Tables of a policy with an entry of their own in its state: quarantined, left, copied when the source was ahead, with truncations to compare, and of a kind that cannot be replicated."""
