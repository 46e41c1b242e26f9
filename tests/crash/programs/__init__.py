"""Programs that crash tests run and kill."""
