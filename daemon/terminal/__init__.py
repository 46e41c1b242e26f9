"""What commands share: the application that they are part of, common options, and how values, tables and failures are printed."""
