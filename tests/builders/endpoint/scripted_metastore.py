"""The metastore as a responder sees it, with settings and no partitions."""

from __future__ import annotations

from daemon.endpoint.answers.table_access import Reason, TableView
from daemon.endpoint.protocol.wire import Message, read_fields, struct_value, text_value, write_struct


class SettingsOnly:
    """Answers ``getVersion`` and ``get_config_value``; records the calls."""

    def __init__(self, version: str = "4.2.0", **settings: str) -> None:
        self._version = version
        self.has_catalogs = True
        self._settings = {name.replace("__", "."): value for name, value in settings.items()}
        self.calls: list[str] = []

    def exchange(self, request: Message) -> Message:
        """Answer a call about the server."""
        self.calls.append(request.name)
        fields = read_fields(request.body)
        if request.name == "get_catalogs" and self.has_catalogs:
            return request.answer(write_struct([(0, struct_value([]))]))
        if request.name == "get_catalogs":
            return request.failure("Invalid method name: 'get_catalogs'")
        if request.name == "getVersion":
            text = self._version
        else:
            assert request.name == "get_config_value", request.name
            text = self._settings.get(fields[1].to_text(), fields[2].to_text())
        return request.answer(write_struct([(0, text_value(text))]))


class AnswersAlways:
    """Gives the same answer to every request."""

    def __init__(self, answer: Message) -> None:
        self._answer = answer

    def exchange(self, request: Message) -> Message:
        """Return the answer."""
        assert request.name == self._answer.name
        return self._answer


class Outcomes:
    """Records what happened to each call."""

    def __init__(self) -> None:
        self.answered_calls: list[tuple[str, str, int]] = []
        """Call, table and event id."""
        self.reasons: list[Reason] = []
        self.repeated = 0
        """Answers with the bytes of an earlier one."""

    def answered(
        self, request: Message, answer: Message, view: TableView, seconds: float, *, is_repeated: bool
    ) -> None:
        """Record an answer."""
        self.repeated += is_repeated
        assert answer.header.sequence == request.header.sequence
        assert seconds >= 0
        self.answered_calls.append((request.name, view.name, view.event_id))

    def forwarded(self, call: str, reason: Reason, seconds: float) -> None:
        """Record why a call is forwarded."""
        assert call
        assert seconds >= 0
        self.reasons.append(reason)
