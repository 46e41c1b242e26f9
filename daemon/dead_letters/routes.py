"""Routes that list and show dead letters, and the action that decodes one of them again.

They act like ``tideline dlq list``, ``show`` and ``replay``. Only operators may use them, because a reason
may quote a record. The list omits the contents of records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from daemon.http.actions import NoParameters, action_route
from daemon.http.endpoints import build_endpoint
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.parameters import Parameters
from daemon.kafka.broker import broker_settings
from daemon.kafka.dead_letter_reader import DeadLetterReader, ReplayOutcome
from daemon.status.action_calls import ActionCall
from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.config.model import Config
    from daemon.http.actions import Audit
    from daemon.kafka.dead_letter_reader import DeadLetter


PATH: Final = f"{BASE}/dead-letters"
LISTED: Final = 200
_DIGITS_MAX: Final = 18
"""Of an offset in the topic."""
_TAG: Final = "Dead letters"


@dataclass(frozen=True, slots=True)
class ListedLetter:
    """A record that Tideline could not use."""

    number: int
    at_s: int
    """Unix time at which it became a dead letter."""
    topic: str | None
    offset: int | None
    event_id: int | None
    """Null if the record does not contain its event id."""
    reader: str | None
    code: str | None
    reason: str | None
    action: ActionCall
    """Decodes it again."""


@dataclass(frozen=True, slots=True)
class ShownLetter(ListedLetter):
    """A record that Tideline could not use, with its contents."""

    value: str
    """As UTF-8; other bytes as ``\\xNN``."""


@dataclass(frozen=True, slots=True)
class LetterList:
    """The last dead letters, the newest first."""

    letters: list[ListedLetter]


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """The result for one dead letter."""

    number: int
    outcome: ReplayOutcome
    problem: str | None


def dead_letter_routes(config: Config, audit: Audit) -> Sequence[ApiRoute]:
    """Return the routes of dead letters; none without a broker."""
    if config.kafka is None:
        return ()
    broker, topic = broker_settings(config.kafka), config.kafka.dead_letter_topic

    def read_number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
            raise NotFound("there is no such dead letter", number=text[:30], topic=topic)
        return int(text)

    def list_last(_name: str, _parameters: Parameters) -> dict[str, Any]:
        return asdict(LetterList(list_letters(config)))

    def show(number: str, _parameters: Parameters) -> dict[str, Any]:
        with DeadLetterReader(broker, topic) as reader:
            return asdict(show_letter(reader.read(read_number(number))))

    def replay(number: str, _: NoParameters) -> dict[str, Any]:
        with DeadLetterReader(broker, topic) as reader:
            result = reader.replay(reader.read(read_number(number)))
        return asdict(ReplayAnswer(result.letter.number, result.outcome, result.problem))

    listed = Operation(
        path=PATH,
        tag=_TAG,
        summary=f"The last {LISTED} records that Tideline could not use, for operators.",
        answer=TypeAdapter(LetterList),
    )
    shown = Operation(
        path=f"{PATH}/{{name}}",
        tag=_TAG,
        summary="One record that could not be used, with its contents, for operators.",
        answer=TypeAdapter(ShownLetter),
        name="Number of the dead letter.",
    )
    replayed = Operation(
        path=f"{PATH}/{{name}}/replay",
        tag=_TAG,
        summary="Decode a dead letter again with this version.",
        answer=TypeAdapter(ReplayAnswer),
        name="Number of the dead letter.",
        body=TypeAdapter(NoParameters),
    )
    return (
        ApiRoute(listed, build_endpoint(Parameters, list_last, operators_only=True)),
        ApiRoute(shown, build_endpoint(Parameters, show, operators_only=True)),
        action_route(replayed, NoParameters, replay, audit),
    )


def list_letters(config: Config) -> list[ListedLetter]:
    """Return the last dead letters, the newest first; none without a broker. Raises KafkaUnavailable."""
    if config.kafka is None:
        return []
    with DeadLetterReader(broker_settings(config.kafka), config.kafka.dead_letter_topic) as reader:
        return [describe_letter(each) for each in reader.read_last(LISTED)]


def describe_letter(letter: DeadLetter) -> ListedLetter:
    """Return a dead letter without its contents."""
    error = letter.error
    return ListedLetter(
        letter.number,
        letter.put_at_s,
        error.get("topic"),
        _read_number(error.get("offset")),
        _read_number(error.get("event_id")),
        error.get("reader"),
        error.get("code"),
        error.get("message"),
        ActionCall(f"{PATH}/{letter.number}/replay", "Replay"),
    )


def show_letter(letter: DeadLetter) -> ShownLetter:
    """Return a dead letter with its contents."""
    listed = describe_letter(letter)
    facts = {each.name: getattr(listed, each.name) for each in fields(listed)}
    return ShownLetter(**facts, value=(letter.value or b"").decode(errors="backslashreplace"))


def _read_number(text: str | None) -> int | None:
    """Return the number in a header; None if another program wrote the header in another form."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
