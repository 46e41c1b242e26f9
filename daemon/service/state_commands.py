"""``tideline backup`` and ``tideline restore``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from daemon.terminal.application import config_option, echo, json_option, load_config
from daemon.terminal.layout import bytes_text
from state.value_text import count_text


TIMEOUT_S: Final = 3600.0
_directory = click.argument("directory", type=click.Path(path_type=Path, file_okay=False))


@click.command()
@_directory
@config_option
@json_option
def backup(directory: Path, config_path: Path | None, as_json: bool) -> None:
    """Copy all state files to the new DIRECTORY.

    If a daemon runs, it writes the directory, which must be on its machine. The backup contains the key log
    only if that is in the state directory, and no checkpoints of flat tables.
    """
    from daemon.state_directory.backup import write_backup
    from daemon.state_directory.keeper import INBOX
    from daemon.status.client import serve_request
    from state.errors import NotFound

    state_dir, target = load_config(config_path).state.dir, directory.absolute()
    manifest = serve_request(
        state_dir,
        INBOX,
        {"do": "backup", "directory": str(target)},
        timeout_s=TIMEOUT_S,
        absent=NotFound("the running daemon makes no backups", hint="Restart it with this build."),
        here=lambda: write_backup(state_dir, target),
    )
    echo({**manifest, "directory": str(target)}, as_json, _backup_text)


def _backup_text(manifest: Mapping[str, Any]) -> str:
    files = manifest["files"]
    size = bytes_text(sum(file["size_bytes"] for file in files))
    return f"{count_text(len(files), 'state file')}, {size}, in {manifest['directory']}"


@click.command()
@_directory
@config_option
@json_option
def restore(directory: Path, config_path: Path | None, as_json: bool) -> None:
    """Replace the state files with those of the backup in DIRECTORY; no daemon may use them.

    The former files stay in the state directory. At its next start, the daemon claims the targets again, and
    all other instances lose the right to write to them.
    """
    from daemon.state_directory.backup import restore_backup
    from daemon.state_directory.directory import state_lock

    state_dir = load_config(config_path).state.dir
    with state_lock(state_dir):
        restored = restore_backup(directory, state_dir)
    echo(restored, as_json, _restore_text)


def _restore_text(restored: Mapping[str, Any]) -> str:
    text = f"{count_text(len(restored['restored']), 'state file')} restored"
    former = restored["replaced"]
    return f"{text}; the former ones are in {former}" if former else text
