"""Early warning: the time left until a source deletes events or files that a reader has not read yet."""
