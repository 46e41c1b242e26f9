"""The list of all capabilities and commands. To add a capability, write its package and add a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from daemon.capability import Command
from daemon.catalog.capability import Catalog
from daemon.endpoint.capability import Endpoint
from daemon.flat.capability import Flat
from daemon.keys.capability import Keys
from daemon.partitions.capability import Partitions
from daemon.relay.capability import Relay
from daemon.replica.capability import Replica
from daemon.retention.capability import Retention
from daemon.timelines.capability import Timelines


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.capability import Capability
    from daemon.status.model import StatusSection


_TIMELINES: Final = Timelines()
_PARTITIONS: Final = Partitions()
_FLAT: Final = Flat()

CAPABILITIES: Final[Sequence[Capability]] = (
    Relay(),
    Replica(),
    Catalog(branches=(_TIMELINES, _PARTITIONS)),
    _TIMELINES,
    _PARTITIONS,
    _FLAT,
    Keys(_FLAT),
    Endpoint(),
    Retention(),
)

SHARED_COMMANDS: Final = (
    Command("backup", "daemon.service.state_commands", "Copy the state files, even while the daemon runs."),
    Command("completion", "daemon.service.completion", "Print the script that completes names in a shell."),
    Command("config", "daemon.service.commands", "Check, show and describe the configuration."),
    Command("dlq", "daemon.dead_letters.commands", "List, show and replay dead letters."),
    Command(
        "docs", "daemon.terminal.pages", "Show the documentation, such as a section that a message refers to."
    ),
    Command("doctor", "daemon.service.doctor", "Check the installation, and print one page for a report."),
    Command("gap", "daemon.service.gap_commands", "Continue after events that the source's log has lost."),
    Command("files", "daemon.sources.commands", "Check access to file systems."),
    Command("relay", "daemon.service.commands", "Run only the relays."),
    Command("restore", "daemon.service.state_commands", "Replace the state files with those of a backup."),
    Command("run", "daemon.service.commands", "Run the daemon: relays, projections, flat tables."),
    Command("status", "daemon.status.report.commands", "Show positions, lags and problems of the daemon."),
    Command("version", "daemon.status.report.commands", "Print the version."),
    Command("wait", "daemon.waits.commands", "Wait until a replica or a table reaches a state."),
)
"""Commands that belong to no capability."""


def command_groups() -> dict[str, list[Command]]:
    """Return the commands that users call, by the heading under which ``tideline --help`` lists them."""
    groups: dict[str, list[Command]] = {"Daemon": list(SHARED_COMMANDS)}
    for capability in CAPABILITIES:
        listed = [command for command in capability.commands if not command.is_internal]
        if listed:
            groups.setdefault(capability.heading, []).extend(listed)
    return {heading: sorted(group, key=lambda command: command.name) for heading, group in groups.items()}


def all_commands() -> dict[str, Command]:
    """Return every command by name, in alphabetical order."""
    commands = [*SHARED_COMMANDS, *(one for capability in CAPABILITIES for one in capability.commands)]
    return {command.name: command for command in sorted(commands, key=lambda command: command.name)}


def all_sections() -> Sequence[StatusSection[Any]]:
    """Return the status sections of all capabilities, in their order in the output."""
    return [section for capability in CAPABILITIES for section in capability.status_sections()]
