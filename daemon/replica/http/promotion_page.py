"""The page of a failover: the point of a policy, the steps of its promotion, and the way to fail back.

Before a promotion, it shows the plan, made by the policy's loop, and the button. Afterwards, it shows the
remaining steps, with the configuration of a policy in the other direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from daemon.config.model import Config
from daemon.consumer.shared.window import SharedEvent
from daemon.http.transport.answering import Lane
from daemon.replica.http.pages import find_policy
from daemon.replica.http.routes import ask_policy_loop, require_followed
from daemon.site.consequences import describe_consequence
from daemon.site.pages import Asked, PageRoute, require_operator
from daemon.site.recent_events import find_recent
from daemon.status.action_calls import call_policy
from daemon.status.model import DaemonStatus


TIMEOUT_S: Final = 20.0
"""How long the loop may take to make the plan."""
QUIET_S: Final = 60.0
"""If the source database was changed less long ago, its writers may not have stopped."""


@dataclass(frozen=True, slots=True)
class WayBack:
    """The replication in the other direction."""

    policy: str
    configuration: str
    """A separate file, in YAML."""
    command: str


def promotion_page(
    config: Config,
    status: Callable[[], DaemonStatus],
    recent: Callable[[str], Sequence[SharedEvent]],
) -> PageRoute:
    """Return the route of the page; ``recent`` returns the last events of a source."""

    def values(asked: Asked) -> dict[str, Any]:
        require_operator(asked, "the plan of a promotion")
        settings = require_followed(config, asked.name)
        now = status()
        view = find_policy(now, asked.name)
        found = find_recent(recent(settings.source), table=settings.database.lower())
        change = found.rows[0] if found.rows else None
        plan = ask_policy_loop(config, asked.name, {"do": "plan-promotion"})
        is_forced = bool(plan["incomplete"])
        label = "Promote as it is" if is_forced else "Promote"
        action = call_policy(asked.name, "promote", label, **({"force": True} if is_forced else {}))
        return {
            "now_s": now.time_s,
            "name": asked.name,
            "view": view,
            "source": f"{settings.source}/{settings.database}",
            "change": change,
            "searched": found.searched,
            "is_written": change is not None and now.time_s - change.time_s < QUIET_S,
            "plan": plan,
            "is_promoted": view.state == "promoted" or plan["unmarked"] is not None,
            "action": action,
            "consequence": describe_consequence(action),
            "back": describe_way_back(config, asked.name),
        }

    return PageRoute("/policies/{name}/promotion", "promotion.html", values, lane=Lane.ACTION)


def describe_way_back(config: Config, name: str) -> WayBack:
    """Return the replication of a promoted policy in the other direction.

    The operator adds the settings that the current configuration does not contain, such as the directories of
    the target.
    """
    settings = require_followed(config, name)
    source, target = config.sources[settings.source], config.targets[settings.target]
    bootstrap = "" if config.kafka is None else config.kafka.bootstrap
    policy = f"{name}-back"
    text = f"""\
sources:
  {settings.target}:
    metastore: [{", ".join(target.metastore)}]
    topic: {source.topic}.back
    read_roots: []   # fill in: the warehouse directories of {settings.target}
targets:
  {settings.source}:
    metastore: [{", ".join(source.metastore)}]
policies:
  {policy}:
    source: {settings.target}
    target: {settings.source}
    database: {settings.replica_database}
    target_database: {settings.database}
kafka:
  bootstrap: {bootstrap}   # with the other settings of 'kafka', as in your configuration
state:
  dir: {config.state.dir}-back
"""
    return WayBack(policy, text, f"tideline bootstrap {policy} --reuse-files -c back.yaml")
