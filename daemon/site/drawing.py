"""The values for the drawing of the flow: each source with its topic, its readers, and their targets.

The drawing groups the readers of a source by target, so that it is a tree and no lines cross. Many policies
share one box, which has the number of policies in each state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from daemon.status.flow import FlowNode
from daemon.status.model import NEW, DaemonStatus, ProjectionView, SourceStatus
from daemon.terminal.layout import duration_text, id_text, number_text
from state.value_text import count_text


SHOWN_MAX: Final = 5
"""Policies of one target drawn one by one."""
BEHIND_S: Final = 60.0
_WORST: Final = ("failed", "stuck", "backing-off", NEW, "paused", "behind", "starting", "following")


@dataclass(frozen=True, slots=True)
class Group:
    """The readers that write to one target. Readers without a target keep their state in Tideline."""

    readers: tuple[FlowNode, ...]
    target: FlowNode | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """A source with its topic and its readers."""

    source: FlowNode
    topic: FlowNode
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """The whole flow."""

    streams: tuple[Stream, ...]
    others: tuple[FlowNode, ...]
    """Loops without a source, such as flat tables of topics."""


def draw(status: DaemonStatus, nodes: Iterable[FlowNode]) -> Drawing:
    """Return the drawing; capabilities add ``nodes``."""
    listed = tuple(nodes)
    streams = tuple(_stream(status, source, listed) for source in status.sources)
    names = {source.name for source in status.sources}
    return Drawing(streams, tuple(node for node in listed if node.source not in names))


def _stream(status: DaemonStatus, source: SourceStatus, nodes: Sequence[FlowNode]) -> Stream:
    views = [view for view in status.projections if view.source == source.name]
    by_target: dict[str, list[ProjectionView]] = {}
    for view in views:
        by_target.setdefault((view.target or "").partition("/")[0], []).append(view)
    kept = by_target.pop("", [])
    groups = [
        Group(_readers(target, group), _target(target, group)) for target, group in sorted(by_target.items())
    ]
    beside = (*(reader_node(view) for view in kept), *(node for node in nodes if node.source == source.name))
    if beside:
        groups.append(Group(beside))
    problem = (source.problem,) if source.problem else ()
    state = source.relay_state or "elsewhere"
    event = FlowNode(
        kind="source",
        name=source.name,
        state="backing-off" if problem and state != "failed" else "following",
        facts=(f"event {id_text(source.current_event_id)}",),
    )
    facts: tuple[str, ...] = ()
    if source.lag_events:
        facts = (f"{count_text(source.lag_events, 'event')} behind", duration_text(source.lag_s))
    elif source.lag_events == 0:
        facts = ("complete",)
    topic = FlowNode(
        kind="topic",
        name="relayed elsewhere"
        if source.relay_state is None
        else f"event {id_text(source.relayed_event_id)}",
        state=_late(state, source.lag_s),
        facts=facts if source.relay_state else (),
    )
    return Stream(event, topic, tuple(groups))


def _readers(target: str, views: Sequence[ProjectionView]) -> tuple[FlowNode, ...]:
    if len(views) <= SHOWN_MAX:
        return tuple(map(reader_node, views))
    states = Counter(_late(view.state, view.lag_s) for view in views)
    name = count_text(len(views), "policy", "policies")
    worst = next((state for state in _WORST if state in states), "following")
    facts = tuple(f"{number_text(count)} {state}" for state, count in states.most_common())
    query = urlencode({"filter": f"{target}/"})
    return (FlowNode(kind="replica", name=name, state=worst, facts=facts, href=f"/policies?{query}"),)


def reader_node(view: ProjectionView) -> FlowNode:
    """Return the box of one projection."""
    kind, _, name = view.name.partition(":")
    facts = [f"{duration_text(view.lag_s)} behind" if view.lag_s else view.state]
    if view.quarantined:
        facts.append(f"{len(view.quarantined)} quarantined")
    is_replica = kind == "replication"
    state = _late(view.state, view.lag_s)
    if view.quarantined and state == "following":
        state = "quarantined"
    return FlowNode(
        kind="replica" if is_replica else kind,
        name=name,
        state=state,
        facts=tuple(facts),
        href=f"/policies/{quote(name)}" if is_replica else "",
    )


def _target(name: str, views: Sequence[ProjectionView]) -> FlowNode:
    return FlowNode(kind="target", name=name, state="", facts=(count_text(len(views), "database"),))


def _late(state: str, lag_s: float | None) -> str:
    return "behind" if state == "following" and (lag_s or 0.0) > BEHIND_S else state
