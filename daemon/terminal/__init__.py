"""What commands share: the application, common options, and how values, tables and failures are printed."""
