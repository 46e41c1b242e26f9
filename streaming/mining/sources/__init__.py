"""Query sources: one module for each place where query texts are kept."""
