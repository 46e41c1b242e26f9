"""Lists of many rows: one page of them, filtered by words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from annotated_types import Interval

from daemon.http.parameters import Parameters, read_parameters
from daemon.site.pages import Asked


ROWS: Final = 50


@dataclass(frozen=True)
class ListParameters(Parameters):
    """Parameters of a page with a list."""

    filter: str = ""
    """Words that the listed rows have."""
    page: Annotated[int, Interval(ge=1, le=10**6)] = 1


@dataclass(frozen=True, slots=True)
class Listed:
    """The rows of one page of a list."""

    rows: Sequence[Any]
    total: int
    """Rows that have the words of the filter."""
    page: int
    filter: str

    @property
    def pages(self) -> int:
        """The number of pages, at least 1."""
        return max(1, -(-self.total // ROWS))

    def with_rows(self, rows: Sequence[Any]) -> Listed:
        """Return the same page with other values of its rows."""
        return replace(self, rows=rows)

    def query(self, page: int) -> str:
        """Return the query of another page of the list."""
        given: Mapping[str, Any] = {"filter": self.filter} if self.filter else {}
        return urlencode({**given, "page": page})


def list_rows(asked: Asked, rows: Sequence[Any], text_of: Callable[[Any], str]) -> Listed:
    """Return the page requested of the rows with all words of the filter, in any case.

    Raises BadInput.
    """

    def find(words: Sequence[str]) -> Sequence[Any]:
        if not words:
            return rows
        return [row for row in rows if all(word in text_of(row).lower() for word in words)]

    return list_found(asked, find)


def list_found(asked: Asked, find: Callable[[Sequence[str]], Sequence[Any]]) -> Listed:
    """Return the page requested of the rows found for the words of the filter, which are in lower case.
    Raises BadInput.
    """
    given = read_parameters(ListParameters, asked.parameters)
    found = find(given.filter.lower().split())
    rows = found[(given.page - 1) * ROWS : given.page * ROWS]
    return Listed(rows, len(found), given.page, given.filter)
