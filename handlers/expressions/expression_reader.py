"""Reads expressions: from the bytes that Hive's clients send to an expression tree,
through the Java process of ``java_process``.

The first expression starts the process; after a failure it is started again. An expression that cannot be
read is None, and the answer to the client is then "all partitions, some of which may not match". So no client
call fails because of its expression. The first bytes tell which Hive wrote them: Hive 4 names the class of
the root, Hive 2 and 3 do not.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from handlers.expressions.java_process import JavaProcess
from state.errors import ServerFault
from state.partitions.filters.hive_expressions import Call, ColumnReference, Constant, Expression


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


EXPRESSION_BYTES_MAX: Final = 1 << 20
KEPT_BYTES_MAX: Final = 16 << 10
"""Longer expressions are read each time."""
KEPT_MAX: Final = 256
REST_S: Final = 10.0
"""How long nothing is read after a failure of the process, so that bytes which kill it cannot cause endless
restarts."""
_HIVE_4: Final = b"\x01\x00org.apache.hadoop.hive.ql.plan."


class ExpressionReader:
    """Reads expressions; thread-safe, one expression at a time."""

    def __init__(self, start: Callable[[], JavaProcess] | None = None, *, rest_s: float = REST_S) -> None:
        self._start = start or JavaProcess
        self._rest_s = rest_s
        self._process: JavaProcess | None = None
        self._rest_until_s = 0.0
        self._lock = threading.Lock()
        self._trees: dict[bytes, Expression] = {}
        """The trees of the last expressions; the bytes of an expression determine its tree."""
        self.failures = 0
        """The number of expressions that could not be read."""

    def read(self, expression: bytes) -> Expression | None:
        """Return the tree of an expression, None where it cannot be read.
        Raises ConfigError where Java is missing.

        Clients repeat their expressions, so the trees of the last ones are kept: the Java process takes
        longer than most answers.
        """
        with self._lock:
            tree = self._trees.get(expression)
            if tree is not None:
                return tree
            text = self._text(expression) if len(expression) <= EXPRESSION_BYTES_MAX else None
        try:
            found = _parse_node(json.loads(text or ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.failures += 1
            return None
        self._keep(expression, found)
        return found

    def _keep(self, expression: bytes, tree: Expression) -> None:
        if len(expression) <= KEPT_BYTES_MAX:
            with self._lock:
                self._trees[expression] = tree
                if len(self._trees) > KEPT_MAX:
                    del self._trees[next(iter(self._trees))]

    @property
    def pid(self) -> int | None:
        """The pid of the Java process, None while none is running."""
        return None if self._process is None else self._process.process.pid

    def close(self) -> None:
        """Stop the Java process."""
        with self._lock:
            self._stop()

    def _text(self, expression: bytes) -> str | None:
        from py4j.protocol import Py4JError, Py4JJavaError

        if time.monotonic() < self._rest_until_s:
            return None
        try:
            self._process = self._process or self._start()
            return self._process.read(expression, is_hive4=expression.startswith(_HIVE_4))
        except Py4JJavaError:
            return None
        except (Py4JError, OSError, ServerFault):
            self._stop()
            self._rest_until_s = time.monotonic() + self._rest_s
            return None

    def _stop(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


def _parse_node(node: Mapping[str, Any]) -> Expression:
    if "function" in node:
        return Call(str(node["function"]), tuple(_parse_node(part) for part in node["arguments"]))
    if "column" in node:
        return ColumnReference(str(node["column"]), str(node["type"]))
    text = node["constant"]
    return Constant(None if text is None else str(text), str(node["type"]))
