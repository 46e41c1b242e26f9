"""Early warning: the time left until a reader loses events or files before it reads them."""
