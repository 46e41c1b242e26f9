"""The partition index: answers, their text and JSON, over HTTP and on the command line."""
