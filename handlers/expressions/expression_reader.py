"""Reads expressions: from the bytes that Hive's clients send to an expression tree.

An unreadable expression is None, and the answer to the client is then "all partitions, some of which may not
match". So no client call fails because of its expression. The first bytes show which Hive wrote them: Hive 4
names the class of the root, Hive 2 and 3 do not.
"""

from __future__ import annotations

import threading
from typing import Final

from handlers.expressions.hive_objects import read_expression
from handlers.expressions.kryo_input import Unreadable
from state.partitions.filters.hive_expressions import Expression


KEPT_BYTES_MAX: Final = 16 << 10
"""Longer expressions are read each time."""
KEPT_MAX: Final = 256
_HIVE_4: Final = b"\x01\x00org.apache.hadoop.hive.ql.plan."


class ExpressionReader:
    """Reads expressions; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trees: dict[bytes, Expression] = {}
        """The trees of the last expressions; the bytes of an expression determine its tree."""
        self.failures = 0
        """The number of expressions that could not be read."""

    def read(self, expression: bytes) -> Expression | None:
        """Return the tree of an expression, None if it is unreadable. Clients repeat their expressions, so
        the reader keeps the trees of the last ones.
        """
        with self._lock:
            tree = self._trees.get(expression)
        if tree is not None:
            return tree
        try:
            tree = read_expression(expression, is_hive4=expression.startswith(_HIVE_4))
        except Unreadable:
            self.failures += 1
            return None
        self._keep(expression, tree)
        return tree

    def _keep(self, expression: bytes, tree: Expression) -> None:
        if len(expression) <= KEPT_BYTES_MAX:
            with self._lock:
                self._trees[expression] = tree
                if len(self._trees) > KEPT_MAX:
                    del self._trees[next(iter(self._trees))]
