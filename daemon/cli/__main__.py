"""``python -m daemon.cli``: the command line without its installed script."""

from __future__ import annotations

from daemon.cli import main


main()
