"""Generates random filters, and computes the partitions that match and those that the seed document's plan
reads.

The seed document (HBase execution plans for partition filters) writes a filter as an OR of ANDs. For each
AND, it scans the range of keys that equality on the first columns and then one range on the next column
select, and checks the other conditions on each key. It has no second index. This module computes its
partitions and the matching ones from the values, without Tideline's parser and planner: a set of partitions
is an integer with one bit for each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import and_, or_
from typing import Final


_CONDITIONS_MAX: Final = 5
_LISTED_MAX: Final = 6
_LISTS_SHARE: Final = 0.2
_LIKE_SHARE: Final = 0.1
_OPERATORS: Final = ("=", "=", "=", "<", "<=", ">", ">=", "between", "!=")


@dataclass(frozen=True)
class Leaf:
    """One condition: its text, its column, and the positions of the selected values in the order of the
    column.
    """

    text: str
    column: int
    chosen: frozenset[int]
    kind: str
    """``points`` and ``range`` limit a scan; ``other`` does not."""


@dataclass(frozen=True)
class Tree:
    """Conditions joined by AND or OR."""

    is_and: bool
    children: tuple[Tree | Leaf, ...]


class Grid:
    """The partitions of a table: every combination of the columns' values, in the order of keys."""

    def __init__(self, names: Sequence[str], values: Sequence[Sequence[str]]) -> None:
        self.names = names
        self.values = values
        self._rows = list(product(*(range(len(each)) for each in values)))
        self.everything = (1 << len(self._rows)) - 1
        self.masks: list[list[int]] = [[0] * len(each) for each in values]
        for number, row_ in enumerate(self._rows):
            for column, value in enumerate(row_):
                self.masks[column][value] |= 1 << number

    def rows_of(self, column: int, chosen: frozenset[int]) -> int:
        """Return the partitions with one of the chosen values."""
        return reduce(or_, (self.masks[column][value] for value in chosen), 0)

    def matching(self, node: Tree | Leaf) -> int:
        """Return the partitions that match."""
        if isinstance(node, Leaf):
            return self.rows_of(node.column, node.chosen)
        return reduce(and_ if node.is_and else or_, map(self.matching, node.children))

    def seed_rows(self, node: Tree | Leaf) -> int:
        """Return the partitions that the seed document's plan reads."""
        return reduce(or_, map(self._seed_scan, write_as_ands(node)))

    def _seed_scan(self, leaves: tuple[Leaf, ...]) -> int:
        rows = self.everything
        for column in range(len(self.names)):
            limits = [leaf for leaf in leaves if leaf.column == column and leaf.kind != "other"]
            if not limits:
                break
            rows &= self.rows_of(column, frozenset.intersection(*(leaf.chosen for leaf in limits)))
            if all(leaf.kind == "range" for leaf in limits):
                break
        return rows


def write_as_ands(node: Tree | Leaf) -> list[tuple[Leaf, ...]]:
    """Return the filter as ANDs, which are joined by OR."""
    if isinstance(node, Leaf):
        return [(node,)]
    parts = [write_as_ands(child) for child in node.children]
    if not node.is_and:
        return [one for part in parts for one in part]
    return [tuple(leaf for one in chosen for leaf in one) for chosen in product(*parts)]


def render_filter(node: Tree | Leaf) -> str:
    """Return a filter as text."""
    if isinstance(node, Leaf):
        return node.text
    return "(" + (" and " if node.is_and else " or ").join(map(render_filter, node.children)) + ")"


class FilterGenerator:
    """Generates random filters over a grid, from a seed. ``quoted`` are the columns with text."""

    def __init__(self, grid: Grid, quoted: Sequence[bool], seed: int) -> None:
        self._grid = grid
        self._quoted = quoted
        self._random = random.Random(seed)

    def filters(self, count: int) -> Iterator[Tree | Leaf]:
        """Yield filters of one to five conditions."""
        for _ in range(count):
            yield self._tree(self._random.choice(range(1, _CONDITIONS_MAX + 1)))

    def _tree(self, conditions: int) -> Tree | Leaf:
        if conditions == 1:
            return self._leaf()
        first = self._random.randrange(1, conditions)
        is_and = self._random.random() < 0.6
        return Tree(is_and, (self._tree(first), self._tree(conditions - first)))

    def _leaf(self) -> Leaf:
        column = self._random.randrange(len(self._grid.names))
        if self._random.random() < _LISTS_SHARE:
            return self._list(column)
        if self._quoted[column] and self._random.random() < _LIKE_SHARE:
            return self._like(column)
        return self._comparison(column)

    def _comparison(self, column: int) -> Leaf:
        size = len(self._grid.values[column])
        low, high = sorted(self._random.sample(range(size), 2))
        bounds = {
            "<": (0, low),
            "<=": (0, low + 1),
            ">": (low + 1, size),
            ">=": (low, size),
            "=": (low, low + 1),
        }
        name, text = self._grid.names[column], self._literal(column, low)
        match self._random.choice(_OPERATORS):
            case "between":
                between = f"{name} between {text} and {self._literal(column, high)}"
                return Leaf(between, column, frozenset(range(low, high + 1)), "range")
            case "!=":
                return Leaf(f"{name} != {text}", column, frozenset(range(size)) - {low}, "other")
            case operator:
                chosen = frozenset(range(*bounds[operator]))
                return Leaf(
                    f"{name} {operator} {text}", column, chosen, "points" if operator == "=" else "range"
                )

    def _like(self, column: int) -> Leaf:
        values = self._grid.values[column]
        value = self._random.choice(values)
        start = value[: self._random.randrange(1, len(value) + 1)]
        begun = frozenset(at for at, each in enumerate(values) if each.startswith(start))
        return Leaf(f"{self._grid.names[column]} like '{start}%'", column, begun, "other")

    def _list(self, column: int) -> Leaf:
        everything = range(len(self._grid.values[column]))
        chosen = frozenset(self._random.sample(everything, self._random.randrange(1, _LISTED_MAX)))
        texts = ", ".join(self._literal(column, value) for value in sorted(chosen))
        name = self._grid.names[column]
        if self._random.random() < 0.5:
            return Leaf(f"({name}) in ({texts})", column, chosen, "points")
        return Leaf(f"({name}) not in ({texts})", column, frozenset(everything) - chosen, "other")

    def _literal(self, column: int, value: int) -> str:
        text = self._grid.values[column][value]
        return f"'{text}'" if self._quoted[column] else text
