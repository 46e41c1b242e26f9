"""Runs an endpoint as a child process of the daemon, so that it has its own core and its crash affects no
other part.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import TypeAdapter, ValidationError

from daemon.endpoint.configured.reports import BEHIND, REPORT, STOP_REQUESTED, read_metrics
from daemon.endpoint.configured.settings import SERVE
from daemon.endpoint.configured.status import DifferingTable, EndpointStatus
from daemon.process.child import STARTED, build_command, reported_error
from daemon.process.child_loop import ChildLoop
from daemon.process.loops.loop import Job
from daemon.process.redaction import redact
from state.errors import EndpointEnded, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from daemon.capability import Runtime
    from daemon.process.loops.loop import LoopStatus
    from state.errors import TidelineError


STUCK_S: Final = 60.0
"""How long an endpoint may report nothing; it reports every two seconds."""
DRAIN_SHARE: Final = 0.8
"""Share of the supervisor's drain time in which calls in progress may end."""
_DIFFERING: Final = TypeAdapter(tuple[DifferingTable, ...])


def loop_name(source: str) -> str:
    """Return the name of an endpoint's loop."""
    return f"serve:{source}"


@dataclass(frozen=True, slots=True)
class EndpointPart:
    """The loop of one endpoint."""

    job: Job
    loop: EndpointLoop


def build_endpoint(runtime: Runtime, source: str) -> EndpointPart:
    """Return the loop of a source's endpoint without starting it."""
    config = runtime.config
    command = build_command(
        "serve", "--source", source, "--log-level", config.logs.level, config_file=runtime.config_file
    )
    loop = EndpointLoop(
        command,
        source,
        SERVE.of(config)[source].freshness,
        runtime.nudges.of(source).set,
        clean=redact,
        stuck_s=STUCK_S,
        drain_s=config.supervisor.drain_s * DRAIN_SHARE,
    )
    return EndpointPart(Job(loop_name(source), loop.run), loop)


class EndpointLoop(ChildLoop):
    """The loop of one endpoint. ``metrics`` and ``status`` are thread-safe."""

    name: ClassVar[str] = "endpoint"
    ended = EndpointEnded

    def __init__(
        self,
        command: Sequence[str],
        source: str,
        freshness: str,
        nudge: Callable[[], None],
        **options: Any,
    ) -> None:
        super().__init__(command, **options)
        self._source = source
        self._freshness = freshness
        self._nudge = nudge
        self._address: str | None = None
        self._metrics: tuple[Metric, ...] = ()
        self._differing: tuple[DifferingTable, ...] = ()

    def count_start(self) -> None:
        """Reset the counts of the previous process; the list of differing tables stays."""
        self._address = None
        self._metrics = ()

    def process_event(self, event: Mapping[str, Any]) -> bool:
        """Keep the newest report. The event ``behind`` makes the relay read at once."""
        match event["event"]:
            case "started":
                self._address = str(event.get("listen"))
            case "report":
                self._read_report(event)
            case "behind":
                self._nudge()
        return bool(event["event"] in {STARTED, REPORT, BEHIND})

    def reported_end(self, stopped: Mapping[str, Any]) -> TidelineError | None:
        """Return the endpoint's error; None after an orderly end."""
        return None if stopped.get("reason") == STOP_REQUESTED else reported_error(stopped, self.clean)

    def metrics(self) -> Iterable[Metric]:
        """Return the metrics of the newest report, with the label ``source``."""
        return self._metrics

    def status(self, loop: LoopStatus) -> EndpointStatus:
        """Return the endpoint's row of the status."""
        counted = _Samples(self._metrics)
        reasons = counted.by_label("tideline_endpoint_calls_not_answered_total", "reason")
        return EndpointStatus(
            name=self._source,
            state=loop.shown_state.value,
            freshness=self._freshness,
            listen=self._address if self.pid is not None else None,
            pid=self.pid,
            connections=counted.total("tideline_endpoint_connections"),
            answered=counted.total("tideline_endpoint_calls_answered_total"),
            repeated=counted.total("tideline_endpoint_answers_repeated_total"),
            not_answered=sum(reasons.values()),
            forwarded=counted.total("tideline_endpoint_calls_forwarded_total"),
            reasons=tuple(reasons.most_common()),
            compared=counted.total("tideline_endpoint_answers_compared_total"),
            differing=self._differing,
            problem=loop.problem,
            code=loop.code,
            restarts=loop.restarts,
        )

    def _read_report(self, event: Mapping[str, Any]) -> None:
        try:
            metrics = tuple(read_metrics(event.get("metrics"), self._source))
            differing = _DIFFERING.validate_python(event.get("differing"))
        except (TypeError, ValueError, ValidationError) as error:
            raise MalformedEvent(
                "a report of the endpoint cannot be read", reason=str(error)[:200]
            ) from error
        self._metrics, self._differing = metrics, differing


class _Samples:
    """Sums of the samples of metrics."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._samples = [sample for family in metrics for sample in family.samples]

    def total(self, name: str) -> int:
        return sum(int(sample.value) for sample in self._samples if sample.name == name)

    def by_label(self, name: str, label: str) -> Counter[str]:
        counts: Counter[str] = Counter()
        for sample in self._samples:
            if sample.name == name:
                counts[sample.labels[label]] += int(sample.value)
        return counts


class EndpointCollector:
    """Exposes the metrics of all endpoints in the daemon's registry."""

    def __init__(self, loops: Sequence[EndpointLoop]) -> None:
        self._loops = loops

    def collect(self) -> Iterable[Metric]:
        """Yield each metric once, with one sample for each endpoint and label."""
        merged: dict[str, Metric] = {}
        for loop in self._loops:
            for family in loop.metrics():
                known = merged.get(family.name)
                if known is None:
                    known = merged[family.name] = type(family)(family.name, family.documentation, family.type)
                known.samples.extend(family.samples)
        return merged.values()
