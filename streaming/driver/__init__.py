"""The Spark driver of one flat table: session, assembly, the run itself and its commands."""
