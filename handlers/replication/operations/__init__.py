"""An operator's actions on a whole policy: promotion, retirement, pruning, and compactions of its target."""
