"""Runs the command line (``cli.py``)."""

from dev.stack.cli import main


if __name__ == "__main__":
    main()
