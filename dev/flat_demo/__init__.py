"""What ``make demo-flat`` runs."""
