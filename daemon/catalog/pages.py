"""Lists of tables of a branch on the site, for any number of them. Only the rows shown are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daemon.catalog.answers import CatalogAnswers
from daemon.site.lists import Listed, list_found
from daemon.site.pages import Asked


def list_tables(asked: Asked, answers: CatalogAnswers[Any]) -> Listed:
    """Return the page of the tables of all sources whose names have the words of the filter, each as the API
    lists it.
    """
    opened = answers.open_sources(None)

    def find(words: Sequence[str]) -> Sequence[tuple[int, str]]:
        lists = []
        for _, view in opened:
            names = view.listed_tables()
            for word in words:
                names = [name for name in names if word in name]
            lists.append(names)
        return _Joined(lists)

    listed = list_found(asked, find)
    rows = [row for number, name in listed.rows for row in opened[number][1].rows(opened[number][0], [name])]
    return listed.with_rows(rows)


class _Joined(Sequence[tuple[int, str]]):
    """The names of several lists, each with the number of its list. Copying 100,000 would take too long."""

    def __init__(self, lists: Sequence[Sequence[str]]) -> None:
        self._lists = lists

    def __len__(self) -> int:
        return sum(map(len, self._lists))

    def __getitem__(self, key: Any) -> Any:
        found: list[tuple[int, str]] = []
        start, stop = key.start, key.stop
        for number, names in enumerate(self._lists):
            found += [(number, name) for name in names[max(0, start) : max(0, stop)]]
            start, stop = start - len(names), stop - len(names)
        return found
