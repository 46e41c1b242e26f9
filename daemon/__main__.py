"""``python -m daemon``: the command line, without the installed script."""

from __future__ import annotations

from daemon.service.command_line import main


main()
