"""Early warning: how much time is left until a reader's events or files are removed before it reads them."""
