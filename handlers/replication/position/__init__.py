"""How far a policy is: in its own state, and on the target."""
