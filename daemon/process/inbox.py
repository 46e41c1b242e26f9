"""Requests from a command to the running daemon: files in a directory that only the daemon's user can write
to.

File permissions decide who may send a request: the directory lies in the state directory (mode 0700). The
HTTP API writes requests on behalf of operators (``daemon.http.actions``). A request is one JSON file that
appears complete, by rename. The addressed loop reads it between two batches, serves it and writes the answer
next to it. If the daemon dies in between, it serves the request again, so every request must be repeatable.

The loop that serves a request also applies events, so no request may block it for longer than about
``STEP_S``. Longer work is divided into steps (``SteppedWork``): the loop serves the request again until the
work is finished.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
import structlog

from state.errors import BadInput, ConfigError, FilesUnavailable, NotFound, Refused, TidelineError, Transient


log = structlog.get_logger(__name__)
REQUEST_BYTES_MAX: Final = 64 * 1024
KEPT_S: Final = 600.0
"""How long to keep an unread answer."""
_POLL_S: Final = 0.05
Request = dict[str, Any]
STEP_S: Final = 0.1
BEGUN_MAX: Final = 8
"""Maximum number of unfinished works; a caller may have abandoned one."""
T = TypeVar("T")


def requests_directory(state_dir: Path, kind: str, name: str) -> Path:
    """Return the directory of requests to one loop (such as ``relay`` and a source) of the daemon with this
    state directory.
    """
    return state_dir / "requests" / f"{kind}-{name}"


class Inbox:
    """The daemon's side of the requests to one loop. Use it from one thread only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self) -> None:
        """Create the directory; raise ConfigError if that fails."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                "the directory of requests cannot be created",
                hint="Allow the daemon's user to write to state.dir.",
                key="state.dir",
                value=str(self._directory),
            ) from error

    def serve(self, do: Callable[[Request], Request]) -> int:
        """Serve the waiting requests in order of arrival and return the number of finished ones.

        If a request fails, its answer is the error. A request that is not finished (``StillWorking``) stays,
        and is served again. Raises FilesUnavailable if writing an answer fails; that request is served again,
        too.
        """
        try:
            names = self._list()
            finished = self._serve_waiting(do, self._select(names, ".request"))
            self._delete_old(self._select(names, ".answer"))
        except OSError as error:
            raise FilesUnavailable(
                "the answer to a request cannot be written",
                path=str(self._directory),
                reason=error.strerror,
                hint="Check the state volume: it may be full, read-only or missing.",
            ) from error
        return finished

    def _serve_waiting(self, do: Callable[[Request], Request], waiting: Iterable[Path]) -> int:
        finished = 0
        for path in sorted(waiting, key=_age):
            with suppress(StillWorking):
                self._answer(path, _serve(path, do))
                finished += 1
        return finished

    def has_waiting(self) -> bool:
        """Whether a request waits, or is unfinished."""
        return any(True for _ in self._select(self._list(), ".request"))

    def _list(self) -> list[str]:
        """Return the names of all files with one system call, because every turn of a loop calls this."""
        try:
            return os.listdir(self._directory)  # noqa: PTH208 - without an object for each file
        except FileNotFoundError:
            return []

    def _select(self, names: Iterable[str], suffix: str) -> Iterator[Path]:
        return (self._directory / name for name in names if name.endswith(suffix))

    def _answer(self, path: Path, answer: Request) -> None:
        draft = path.with_suffix(".draft")
        draft.write_bytes(orjson.dumps(answer, default=str))
        draft.replace(path.with_suffix(".answer"))
        path.unlink(missing_ok=True)

    def _delete_old(self, answers: Iterable[Path]) -> None:
        for path in answers:
            if time.time() - _age(path) > KEPT_S:
                path.unlink(missing_ok=True)


class StillWorking(Exception):  # noqa: N818 - not an error: the request is served again
    """Raised for an unfinished request; serving it again continues it."""


class SteppedWork:
    """The unfinished work of requests, by its subject. Use it from one thread only."""

    def __init__(self) -> None:
        self._begun: dict[str, Generator[None, None, Any]] = {}

    def advance(self, key: str, begin: Callable[[], Generator[None, None, T]]) -> T:
        """Begin or continue the work for ``STEP_S``. Returns its result, or raises StillWorking."""
        work = self._begun.pop(key, None) or begin()
        end_s = time.monotonic() + STEP_S
        try:
            while time.monotonic() < end_s:
                next(work)
        except StopIteration as finished:
            result: T = finished.value
            return result
        self._begun[key] = work
        while len(self._begun) > BEGUN_MAX:
            self._begun.pop(next(iter(self._begun)))
        raise StillWorking


def _age(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _serve(path: Path, do: Callable[[Request], Request]) -> Request:
    try:
        return {"result": do(_read(path))}
    except TidelineError as error:
        return {"error": error_to_json(error)}
    except StillWorking:
        raise
    except Exception as error:
        # A request that ends the loop would end it again after every restart.
        log.exception("request failed unexpectedly", request=path.name)
        return {"error": error_to_json(describe_defect("the request failed unexpectedly", error))}


def describe_defect(message: str, error: Exception) -> Refused:
    """Return the error to report to a client whose request failed with an unexpected exception."""
    reason = f"{type(error).__name__}: {error}"[:500]
    return Refused(message, reason=reason, hint="See the log; this is a defect.")


def _read(path: Path) -> Request:
    try:
        if path.stat().st_size > REQUEST_BYTES_MAX:
            raise BadInput("the request is too long", limit_bytes=REQUEST_BYTES_MAX)
        request = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise BadInput("the request cannot be read", reason=str(error)) from error
    if not isinstance(request, dict):
        raise BadInput("the request is not a JSON object")
    return request


def send_request(
    directory: Path, request: Request, timeout_s: float, absent: NotFound | None = None
) -> Request:
    """Send a request to the daemon that serves ``directory`` and return its answer.

    Raises ``absent`` if no loop serves the directory, the error in the answer, and Transient if no answer
    comes in time.
    """
    if absent is not None and not directory.is_dir():
        raise absent
    path = directory / f"{uuid.uuid4().hex}.request"
    draft = path.with_suffix(".new")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        # PTH123: os.open creates the file with the right mode
        with open(descriptor, "wb") as file:  # noqa: PTH123
            file.write(orjson.dumps(request))
        draft.replace(path)
    except OSError as error:
        raise FilesUnavailable(
            "the request cannot be written",
            path=str(directory),
            reason=error.strerror,
            hint="Check the state volume: it may be full, read-only or gone. Then repeat the request.",
        ) from error
    with suppress(OSError):
        os.utime(directory.parent)  # for the daemon's ``inbox_watch``
    return _await_answer(path, timeout_s)


def _await_answer(path: Path, timeout_s: float) -> Request:
    answer = path.with_suffix(".answer")
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if answer.exists():
            content: Request = orjson.loads(answer.read_bytes())
            answer.unlink(missing_ok=True)
            if "error" in content:
                raise error_from_json(content["error"])
            result: Request = content["result"]
            return result
        time.sleep(_POLL_S)
    path.unlink(missing_ok=True)
    raise Transient(
        "the daemon did not answer in time",
        timeout_s=timeout_s,
        hint="Run 'tideline status' to see the state of the daemon.",
    )


def error_to_json(error: TidelineError) -> Request:
    """Return an error as plain values."""
    return {"code": error.code, "message": error.message, "hint": error.hint, "context": error.context}


def error_from_json(values: Request) -> TidelineError:
    """Return the error that another process reported, of the class that belongs to its code."""
    context = {str(key): value for key, value in dict(values.get("context") or {}).items()}
    kind = _classes(TidelineError).get(str(values.get("code")), Refused)
    error = kind(str(values.get("message")), hint=str(values.get("hint") or ""))
    error.context.update(context)
    return error


def _classes(root: type[TidelineError]) -> dict[str, type[TidelineError]]:
    classes = {root.code: root}
    for kind in root.__subclasses__():
        classes |= _classes(kind)
    return classes
