"""``tideline serve --source``: the endpoint of a configured source, alone or as a child process of the
daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.endpoint.configured.assembly import open_answers
from daemon.endpoint.configured.reports import STOP_REQUESTED, Reports
from daemon.endpoint.configured.settings import choose_source, endpoint_settings
from daemon.endpoint.metrics import EndpointMetrics
from daemon.endpoint.process import ProbesAddress, run_endpoint
from daemon.process.metrics import build_registry
from daemon.process.signals import end_with_parent
from state.errors import TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry

    from daemon.config.model import Config
    from daemon.endpoint.configured.assembly import SourceAnswers
    from daemon.endpoint.verification.differing_tables import AnswerDifference


def serve_source(
    config: Config, source: str | None, *, http: ProbesAddress | None, progress_fd: int | None
) -> None:
    """Serve until SIGTERM; with ``progress_fd``, report to the daemon and end with it. Raises ConfigError."""
    if progress_fd is None:
        _Endpoint(config, choose_source(config, source)).run(http)
        return
    end_with_parent()
    endpoint: _Endpoint | None = None
    reports = Reports(progress_fd, registry := build_registry(), lambda: _differing(endpoint))
    try:
        endpoint = _Endpoint(config, choose_source(config, source), registry, reports.behind)
        endpoint.run(http, reports.start)
    except TidelineError as error:
        reports.close(error.code, str(error))
        raise
    reports.close(STOP_REQUESTED)


class _Endpoint:
    """One endpoint with the answers from the index, if its source has one."""

    def __init__(
        self,
        config: Config,
        source: str,
        registry: CollectorRegistry | None = None,
        behind: Callable[[int], None] = lambda _event_id: None,
    ) -> None:
        self._registry = registry or build_registry()
        self._metrics = EndpointMetrics(self._registry)
        self._settings = endpoint_settings(config, source)
        self.answers: SourceAnswers | None = open_answers(
            config, source, self._settings, self._metrics, behind
        )

    def run(self, http: ProbesAddress | None, started: Callable[[str], None] = lambda _address: None) -> None:
        """Serve until SIGTERM."""
        answers = self.answers
        try:
            run_endpoint(
                self._settings,
                self._metrics,
                self._registry,
                http=http,
                make_responders=tuple if answers is None else answers.responders,
                started=started,
            )
        finally:
            if answers is not None:
                answers.close()


def _differing(endpoint: _Endpoint | None) -> Sequence[AnswerDifference]:
    return () if endpoint is None or endpoint.answers is None else endpoint.answers.list_differing()
