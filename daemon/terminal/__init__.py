"""What the commands share on a terminal: options, how failures and tables are printed."""
