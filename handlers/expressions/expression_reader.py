"""From the bytes of an expression to its tree, through the Java process of ``jvm``.

The process is started by the first expression and again after it failed; whatever cannot be read is None, which is a legal
answer ("all partitions, some of which may not match"), so nothing here ever fails a client's call. Which Hive wrote the bytes
is seen from their beginning: Hive 4 names the class of the root, Hive 2 and 3 do not.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from state.errors import ServerFault
from state.partitions.filters.hive_expressions import Call, ColumnReference, Constant, Expression


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handlers.expressions.java_process import JavaProcess


EXPRESSION_BYTES_MAX: Final = 1 << 20
REST_S: Final = 10.0
"""How long nothing is read after the process has failed: bytes that kill it cannot keep us busy starting it."""
_HIVE_4: Final = b"\x01\x00org.apache.hadoop.hive.ql.plan."


class ExpressionReader:
    """Reads expressions; for any thread, one at a time."""

    def __init__(self, start: Callable[[], JavaProcess] | None = None, *, rest_s: float = REST_S) -> None:
        self._start = start or _started
        self._rest_s = rest_s
        self._jvm: JavaProcess | None = None
        self._rest_until_s = 0.0
        self._lock = threading.Lock()
        self.failures = 0
        """Expressions that could not be read."""

    def read(self, expression: bytes) -> Expression | None:
        """Return the tree of an expression, None where it cannot be read. Raises ConfigError where Java is missing."""
        with self._lock:
            text = self._text(expression) if len(expression) <= EXPRESSION_BYTES_MAX else None
        try:
            return _node(json.loads(text or ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.failures += 1
            return None

    @property
    def pid(self) -> int | None:
        """The Java process, None while there is none."""
        return None if self._jvm is None else self._jvm.process.pid

    def close(self) -> None:
        """End the Java process."""
        with self._lock:
            self._stop()

    def _text(self, expression: bytes) -> str | None:
        from py4j.protocol import Py4JError, Py4JJavaError

        if time.monotonic() < self._rest_until_s:
            return None
        try:
            self._jvm = self._jvm or self._start()
            return self._jvm.read(expression, is_hive4=expression.startswith(_HIVE_4))
        except Py4JJavaError:
            return None
        except (Py4JError, OSError, ServerFault):
            self._stop()
            self._rest_until_s = time.monotonic() + self._rest_s
            return None

    def _stop(self) -> None:
        if self._jvm is not None:
            self._jvm.close()
            self._jvm = None


def _started() -> JavaProcess:
    from handlers.expressions.java_process import JavaProcess

    return JavaProcess()


def _node(found: Mapping[str, Any]) -> Expression:
    if "function" in found:
        return Call(str(found["function"]), tuple(_node(part) for part in found["arguments"]))
    if "column" in found:
        return ColumnReference(str(found["column"]), str(found["type"]))
    text = found["constant"]
    return Constant(None if text is None else str(text), str(found["type"]))
