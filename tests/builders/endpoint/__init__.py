"""A metastore and an index for the endpoint."""
