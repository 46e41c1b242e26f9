"""Statuses of daemons in which an operator finds something, and sites that show them."""

from __future__ import annotations

import math
from dataclasses import replace

from daemon.consumer.event_reader import Stages
from daemon.endpoint.configured.status import EndpointStatus
from daemon.flat.status import FlatStatus
from daemon.replica.external.status import ExternalStatus
from daemon.replica.status.compactions import CompactionRow, CompactionStatus
from daemon.replica.status.copies import CopyStatus
from daemon.replica.status.loads import LoadStatus
from daemon.replica.status.points import PointStatus
from daemon.replica.verification.status import DifferingTable, SamplerStatus
from daemon.retention.status import ReaderRetention, SourceRetention
from daemon.status.actions import list_actions
from daemon.status.history import INTERVAL_S, POINTS, HistoryPoint
from daemon.status.model import DaemonStatus, FailedLoop, FailingLoad, ProjectionView, SourceStatus
from handlers.failures import TableFailure
from state.errors import FilesUnavailable, MetastoreUnavailable
from tests.builders.daemon.assembly import SECTIONS
from tests.builders.daemon.loops import daemon_status


NOW_S = 1_700_000_000
REPAIR = "tideline release {policy} {{table}}"


def policy_view(name: str, **changes: object) -> ProjectionView:
    """Return a policy that follows its source."""
    view = ProjectionView(
        f"replication:{name}",
        "lake",
        "following",
        "1234567",
        1_234_567,
        0,
        0.0,
        target=f"dr/{name}",
        repair=REPAIR.format(policy=name),
        stages=Stages(relay_s=0.6, read_s=0.2, queue_s=0.0, apply_s=3.2),
    )
    return replace(view, **changes)  # type: ignore[arg-type]  # fields by name


def _with_actions(status: DaemonStatus) -> DaemonStatus:
    return replace(status, needs_operator=list_actions(status, SECTIONS))


def _status(**changes: object) -> DaemonStatus:
    values: dict[str, object] = {"started_s": NOW_S - 200_000, "time_s": float(NOW_S), "host": "tideline-0"}
    return _with_actions(daemon_status(**(values | changes)))


def empty_status() -> DaemonStatus:
    """Return the status of a daemon that has just started with one source."""
    return _status(state="starting", sources=(SourceStatus("lake"),), projections=(), sections={"copies": ()})


def healthy_status() -> DaemonStatus:
    """Return a status with one example of everything, and no problem."""
    names = ("shop", "hr", "web")
    source = SourceStatus("lake", 1_234_567, 1_234_567, "following", 0, 0.0, records=10, read_s=NOW_S)
    catalog = ProjectionView("catalog:lake", "lake", "following", "1234567", 1_234_567, 0, 0.0)
    return _status(
        sources=(source,),
        projections=(*map(policy_view, names), catalog),
        sections={
            "copies": tuple(CopyStatus(name, 1_200, 3 * 1024**3, waiting=4) for name in names),
            "points": (
                PointStatus(
                    "shop", 1_234_567, NOW_S - 2, {"orders": 812, "visits": 90_411}, {"visits": (90_410,)}
                ),
            ),
            "loads": (
                LoadStatus(
                    "shop",
                    "shop.clicks",
                    "loading",
                    "in-scope",
                    NOW_S - 600,
                    files=420,
                    size_bytes=30 * 1024**3,
                    files_listed=1_000,
                    size_bytes_listed=80 * 1024**3,
                    began_s=NOW_S - 540,
                ),
            ),
            "external": tuple(ExternalStatus(name, "idle", NOW_S - 300, tables=3) for name in names),
            "verification": tuple(SamplerStatus(name, 41) for name in names),
            "compactions": tuple(
                CompactionStatus(name, NOW_S - 20, counts={"succeeded": 12}) for name in names
            ),
            "endpoints": (
                EndpointStatus(
                    "lake",
                    "following",
                    listen="0.0.0.0:9083",
                    answered=91_204,
                    repeated=40_118,
                    not_answered=812,
                    reasons=(("loading", 700), ("filter", 112)),
                    connections=31,
                ),
            ),
            "flats": (
                FlatStatus("events", "web.events", "following", batch=912, rows=44_000_000, columns=61),
            ),
            "retention": (_retention(names, 6.5 * 86_400),),
        },
    )


def _retention(policies: tuple[str, ...], left_s: float) -> SourceRetention:
    week_s = 7 * 86_400.0
    readers = [ReaderRetention(f"replication:{name}", 1, left_s, week_s, left_s, week_s) for name in policies]
    return SourceRetention(
        "lake", NOW_S, 1_000_000, NOW_S - week_s, week_s, None, None, week_s, tuple(readers)
    )


def behind_status() -> DaemonStatus:
    """Return the status of a daemon that reads slower than its source writes."""
    status = healthy_status()
    source = replace(status.sources[0], relayed_event_id=1_200_000, lag_events=34_567, lag_s=480.0)
    views = [
        replace(view, event_id=1_100_000, position="1100000", lag_events=134_567, lag_s=3_900.0)
        for view in status.projections
    ]
    return _with_actions(replace(status, sources=(source,), projections=tuple(views)))


def troubled_status() -> DaemonStatus:
    """Return a status with ten kinds of states that need an operator."""
    failures = tuple(
        TableFailure(
            f"shop.{table}",
            1_234_000 + n,
            NOW_S - 3_600 * n,
            "file-lost",
            "[file-lost] part-0000 is gone from the change manager",
        )
        for n, table in enumerate(("orders", "visits"), 1)
    )
    healthy = healthy_status()
    views = (
        policy_view("shop", quarantined=("shop.orders", "shop.visits"), failures=failures, undecodable=3),
        policy_view("hr", state="paused", paused_since_s=NOW_S - 86_400, lag_events=8_100, lag_s=86_400.0),
        policy_view("web", state="failed", problem="[gap] events 1200001 to 1200456 are missing", code="gap"),
        policy_view("ads", problem="[too-many-failures] 12 tables failed", code="too-many-failures"),
        policy_view("geo", failing=(FailingLoad("geo.cities", 5, "[connect] target-nn:8020 refused"),)),
        healthy.projections[-1],
    )
    differing = DifferingTable(
        "geo.regions",
        1_234_000,
        NOW_S - 900,
        3,
        "column pop: 12 at the source, 11 on the target",
        ("column pop: 12 at the source, 11 on the target", "column area: 7 at the source, 8 on the target"),
    )
    sections = {
        **healthy.sections,
        "verification": (SamplerStatus("geo", 41, differing=1, tables=(differing,)),),
        "compactions": (
            CompactionStatus(
                "geo",
                NOW_S - 20,
                counts={"failed": 1, "initiated": 4},
                listed=(
                    CompactionRow("geo_r.cities", None, "MAJOR", "failed", NOW_S - 7_200, "OutOfMemoryError"),
                ),
            ),
        ),
        "retention": (_retention(("web",), 3_600.0),),
    }
    return _with_actions(
        replace(
            healthy,
            projections=views,
            stuck=("catalog:lake",),
            failed_loops=(
                FailedLoop(
                    "replication:web", "gap", "[gap] events 1200001 to 1200456 are missing", NOW_S - 1_800
                ),
                FailedLoop(
                    "relay:lake", "inconsistent", "[inconsistent] the newest event id went back", NOW_S - 600
                ),
            ),
            sources=(replace(healthy.sources[0], scanned=("shop.raw",)),),
            sections=sections,
        )
    )


def last_day() -> tuple[HistoryPoint, ...]:
    """Return a history with a quiet night, a busy morning, and half an hour in which the daemon was down."""
    last = NOW_S // INTERVAL_S
    return tuple(
        HistoryPoint(last - back, INTERVAL_S, 2.0 + load * 40, round(load * 60_000), round(load * 9 * 2**30))
        for back in range(POINTS - 1, -1, -1)
        if not 60 <= back < 66
        for load in (0.02 + max(0.0, math.sin((POINTS - back) / 45)) * (0.8 + 0.2 * math.sin(back * 1.7)),)
    )


def blocked_status() -> DaemonStatus:
    """Return the status of a daemon whose target is down, and whose state volume is full."""
    down = MetastoreUnavailable(
        "none of the metastore's addresses can be reached",
        addresses="thrift://target-metastore.example.org:9083: connection refused",
    )
    full = FilesUnavailable(
        "the disk of the state file is full; this transaction was not stored",
        path="/var/lib/tideline/catalog-lake.db",
        hint="Free space on the state volume; the work then continues from the last position.",
    )
    healthy = healthy_status()
    loops = [
        FailedLoop(f"replication:{name}", down.code, str(down), NOW_S - 90.0, down.hint)
        for name in ("shop", "hr", "web", "ads")
    ]
    loops.append(FailedLoop("catalog:lake", full.code, str(full), NOW_S - 3_700.0, full.hint))
    views = tuple(replace(view, state="backing-off", lag_s=90.0) for view in healthy.projections)
    return _with_actions(replace(healthy, projections=views, blocked_loops=tuple(loops)))


def large_status(policies: int = 300) -> DaemonStatus:
    """Return the status of a daemon with many policies, a few of which deviate."""
    healthy = healthy_status()
    views = [policy_view(f"db_{number:03}") for number in range(policies)]
    views[17] = replace(views[17], state="paused", paused_since_s=NOW_S - 600)
    views[42] = replace(views[42], lag_events=900, lag_s=120.0)
    copies = tuple(CopyStatus(f"db_{number:03}", number, number * 1024**2) for number in range(policies))
    sections = {**healthy.sections, "copies": copies}
    return _with_actions(replace(healthy, projections=tuple(views), sections=sections))
