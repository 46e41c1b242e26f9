"""Selects the part of a shared configuration that one of several daemons runs.

Policies are divided (``daemon.config.settings.daemons``). Daemon 0 alone runs everything else, because two
relays of one topic or two drivers of one flat table would compete. For the other daemons, these sections are
empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.service.capabilities import CAPABILITIES


if TYPE_CHECKING:
    from daemon.config.model import Config


def select_share(config: Config) -> Config:
    """Return the configuration without the parts that only daemon 0 runs; unchanged for daemon 0."""
    if config.daemons.ordinal == 0:
        return config
    sections = [
        section
        for capability in CAPABILITIES
        if not capability.divides_policies
        for section in capability.config_sections()
    ]
    sources = {
        name: source.model_copy(update={"relay": source.relay.model_copy(update={"enabled": False})})
        for name, source in config.sources.items()
    }
    empty = {section.key: section.field.get_default(call_default_factory=True) for section in sections}
    return config.model_copy(update={"sources": sources, **empty})
