"""A status with every state that needs an operator, as a daemon of several policies would report it.

The samples of the runbooks are made of it (``runbook_samples``), so its names and messages are those that an
operator may see.
"""

from __future__ import annotations

from typing import Final

from daemon.endpoint.configured.status import DifferingTable as DifferingAnswer
from daemon.endpoint.configured.status import EndpointStatus
from daemon.replica.external.status import ExternalProblem, ExternalStatus
from daemon.replica.status.compactions import CompactionRow, CompactionStatus
from daemon.replica.status.left import LeftStatus, LeftTableStatus
from daemon.replica.status.loads import LoadStatus
from daemon.replica.status.unreplicated import UnreplicatedObject, UnreplicatedStatus
from daemon.replica.verification.status import DifferingTable, SamplerStatus
from daemon.retention.measurement import Reader
from daemon.retention.status import describe
from daemon.status.model import DaemonStatus, FailedLoop, FailingLoad, ProjectionView, SourceStatus
from handlers.failures import TableFailure
from handlers.replication.policy.replicability import ICEBERG_TABLE, SWITCHED_OFF
from state import errors
from state.errors import TidelineError
from tests.builders.daemon.retention import measurement


NOW_S: Final = 10_860.0
SINCE_S: Final = 60


def view(name: str, state: str = "following", **fields: object) -> ProjectionView:
    return ProjectionView(name, "lake", state, **fields)  # type: ignore[arg-type]


def status(*views: ProjectionView, **fields: object) -> DaemonStatus:
    return DaemonStatus("1", "host", 1, 0.0, NOW_S, projections=views, **fields)  # type: ignore[arg-type]


def failed(name: str, error: TidelineError) -> FailedLoop:
    return FailedLoop(name, error.code, str(error), SINCE_S)


def load(tries: int) -> LoadStatus:
    problem = "[files-unavailable] the target's file system is full"
    return LoadStatus(
        "press", f"press.{tries}", "waiting", "repair", SINCE_S, tries, problem, next_try_s=11_100.0
    )


GAP: Final = errors.GapDetected(
    "events were removed from the notification log before they were relayed", expected=417, found=530
)
LOST: Final = errors.GapDetected(
    "events are missing in the topic and in the notification log", expected=417, found=530
)
RESTORED: Final = errors.Inconsistent("the metastore is behind the topic", relayed=530, current=417)
FENCED: Final = errors.Fenced(
    "another instance took over the target database", database="forum", holder="pid 71 on tideline-1"
)
DIVERGED: Final = errors.TargetDiverged(
    "another client raised the target's position", database="wiki", value=612, expected=530
)
DAMAGED: Final = errors.StateCorrupt("a page of the state file is damaged", path="catalog-lake.db")
DRIVER: Final = errors.ConfigError("flat.clicks.source.topic: the topic does not exist", topic="web.clicks")
BIND: Final = errors.ConfigError("serve.lake.listen: another process uses the address", listen="0.0.0.0:9083")
LEFT_OUT: Final = {"shop.carts": ICEBERG_TABLE, "shop.tests": SWITCHED_OFF}

EVERYTHING: Final = status(
    view(
        "replication:shop",
        failures=(
            TableFailure(
                "shop.orders",
                417,
                SINCE_S,
                "file-lost",
                "neither the file nor its copy in the change manager exists",
            ),
        ),
        repair="tideline release shop {table}",
    ),
    view("replication:blog", "paused", paused_since_s=SINCE_S, pause_reason="new disks"),
    view("replication:fresh", "not-bootstrapped"),
    view(
        "replication:ads",
        "backing-off",
        code="too-many-failures",
        problem=str(errors.TooManyFailures("5 tables were quarantined within five minutes", policy="ads")),
    ),
    view(
        "catalog:lake",
        failing=(FailingLoad("shop.clicks", 3, "[metastore-unavailable] the call timed out"),),
        repair="tideline timeline rebuild {table}",
    ),
    view("catalog:pond", failing=(FailingLoad("shop.clicks", 2, "the call timed out"),), undecodable=2),
    sources=(SourceStatus("lake", scanned=("shop.clicks",)),),
    stuck=("relay:sea",),
    failed_loops=(
        failed("replication:sales", LOST),
        failed("replication:forum", FENCED),
        failed("replication:wiki", DIVERGED),
        failed("catalog:lake", DAMAGED),
        failed("relay:lake", GAP),
        failed("relay:pond", RESTORED),
        failed("flat:clicks", DRIVER),
        FailedLoop("mining", "unexpected", "KeyError: 'dt'", SINCE_S),
        FailedLoop("verification:shop", "unexpected", "KeyError: 'dt'", SINCE_S),
        FailedLoop("watch:sea", "unexpected", "KeyError: 'dt'", SINCE_S),
        failed("serve:lake", BIND),
    ),
    sections={
        "loads": (load(2), load(3)),
        "verification": (
            SamplerStatus(
                "shop",
                differing=1,
                tables=(
                    DifferingTable("shop.visits", 530, SINCE_S, 2, "partition dt=b is missing on the target"),
                ),
            ),
        ),
        "endpoints": (
            EndpointStatus(
                "lake",
                "following",
                differing=(DifferingAnswer("shop.visits", "get_partitions", 530, SINCE_S),),
            ),
        ),
        "retention": (
            describe(
                measurement(Reader("relay:lake", 7, reads_topic=False), Reader("replication:shop", 9)), 60.0
            ),
        ),
        "left": (LeftStatus("shop", 1, (LeftTableStatus("shop_r.t", SINCE_S),), "tideline prune shop"),),
        "external": (
            ExternalStatus(
                "shop",
                "idle",
                failing=1,
                problems=(
                    ExternalProblem(
                        ("shop.clicks",),
                        "hdfs://source/clicks",
                        "refused",
                        "the user may not read the directory",
                    ),
                ),
            ),
        ),
        "unreplicated": (
            UnreplicatedStatus(
                "shop",
                {each.code: 1 for each in LEFT_OUT.values()},
                tuple(
                    UnreplicatedObject(name, each.code, each.reason, 417, on_target=False)
                    for name, each in LEFT_OUT.items()
                ),
            ),
        ),
        "compactions": (
            CompactionStatus(
                "shop",
                counts={"failed": 1},
                listed=(
                    CompactionRow(
                        "shop_r.daily sums",
                        "dt=1",
                        "major",
                        "failed",
                        SINCE_S,
                        "OutOfMemoryError: Java heap space",
                    ),
                ),
            ),
            CompactionStatus("press", read_s=NOW_S, counts={"initiated": 2}, waiting_s=7 * 3600.0),
        ),
    },
)
