"""Tables of a policy with an entry of their own in its state: quarantined, left, and of a kind that cannot be replicated."""
