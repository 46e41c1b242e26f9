"""The three storage forms of a timeline, and the registry that finds a form by its name.

StoreAll lists every partition. EndsAndHoles (Lens' default) lists the first, the latest and the holes between
them. Ranges lists the runs. They differ only in the table properties that they write: the set behind all
three is ``Runs``, so none of them has the defects of Lens' own implementations. A deployment may register its
own form under its class name.

Reading is strict. Contradictions (reference: lens-timelines.md §1.2, §6) raise TimelineInconsistent, and the
caller rebuilds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, Protocol

from state.errors import BadInput, BadPartitionValue, ConfigError, TimelineInconsistent
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.table_properties import blank_list, read_list, write_list
from state.timelines.time_ranges import PartitionRange


_LENS_PACKAGE: Final = "org.apache.lens.cube.metadata.timeline."
_COMMA: Final = re.compile(r"\s*,\s*")


class StorageForm(Protocol):
    """How a timeline looks in table properties; keys are relative to the timeline's prefix."""

    @property
    def name(self) -> str:
        """Short name, for users."""

    @property
    def class_name(self) -> str:
        """The value of ``storage.class``."""

    def write(self, period: UpdatePeriod, runs: Runs) -> dict[str, str]:
        """Return all keys of the form, even for an empty timeline, because stale keys stay in the table."""

    def length(self, period: UpdatePeriod, runs: Runs) -> int:
        """Return about how many characters ``write`` produces, without producing them."""

    def read(self, period: UpdatePeriod, properties: Mapping[str, str]) -> Runs | None:
        """Return the runs, or None if the form has no keys; raise TimelineInconsistent for contradictions."""

    def blanks(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the values that empty the form's keys in ``properties``."""


class StoreAll:
    """Lists every partition: for few partitions, far apart."""

    name = "store-all"
    class_name = _LENS_PACKAGE + "StoreAllPartitionTimeline"

    def write(self, period: UpdatePeriod, runs: Runs) -> dict[str, str]:
        """Return the key ``partitions``."""
        return write_list("partitions", map(period.format, runs))

    def length(self, period: UpdatePeriod, runs: Runs) -> int:
        """Return the length of all partitions."""
        return runs.count() * _item_length(period, runs)

    def read(self, period: UpdatePeriod, properties: Mapping[str, str]) -> Runs | None:
        """Read ``partitions``; as in Lens, spaces are an error and empty items do not count."""
        text = read_list(properties, "partitions")
        return (
            None
            if text is None
            else Runs.of(_parse_items(period, (item for item in text.split(",") if item)))
        )

    def blanks(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the values that empty ``partitions``."""
        return blank_list(properties, "partitions")


class EndsAndHoles:
    """Lists the first and the latest partition and the holes between them:
    the default, for long histories with few holes.
    """

    name = "ends-and-holes"
    class_name = _LENS_PACKAGE + "EndsAndHolesPartitionTimeline"

    def write(self, period: UpdatePeriod, runs: Runs) -> dict[str, str]:
        """Return ``first``, ``latest`` (both empty for an empty timeline, LENS-512) and ``holes``."""
        first, latest = runs.first, runs.last
        ends = {
            "first": "" if first is None else period.format(first),
            "latest": "" if latest is None else period.format(latest),
        }
        return ends | write_list(
            "holes", (period.format(hole) for gap in runs.gaps() for hole in range(*gap))
        )

    def length(self, period: UpdatePeriod, runs: Runs) -> int:
        """Return the length of all holes."""
        return sum(end - start for start, end in runs.gaps()) * _item_length(period, runs)

    def read(self, period: UpdatePeriod, properties: Mapping[str, str]) -> Runs | None:
        """Read both ends and the holes, which must be strictly between them."""
        first, latest = properties.get("first"), properties.get("latest")
        text = read_list(properties, "holes")
        if first is None and latest is None and text is None:
            return None
        holes = Runs.of(_parse_items(period, _split_items(text or "")))
        if not first and not latest and not holes:
            return Runs()
        if not first or not latest:
            raise TimelineInconsistent("an end is missing", first=first, latest=latest, holes=holes.count())
        begin, last = _parse_items(period, (first, latest))
        return _remove_holes(begin, last + 1, holes)

    def blanks(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the values that empty both ends and the holes."""
        return {key: "" for key in ("first", "latest") if key in properties} | blank_list(properties, "holes")


class Ranges:
    """Lists the runs: for partitions that come and go in blocks."""

    name = "ranges"
    class_name = _LENS_PACKAGE + "RangesPartitionTimeline"

    def write(self, period: UpdatePeriod, runs: Runs) -> dict[str, str]:
        """Return the key ``ranges``."""
        return write_list(
            "ranges", (f"[{period.format(start)}, {period.format_end(end)})" for start, end in runs.pairs())
        )

    def length(self, period: UpdatePeriod, runs: Runs) -> int:
        """Return the length of all ranges."""
        return len(runs) * (2 * _item_length(period, runs) + 4)

    def read(self, period: UpdatePeriod, properties: Mapping[str, str]) -> Runs | None:
        """Read ``ranges``, which must be disjoint, in order,
        not adjacent and not empty, as every writer leaves them.
        """
        text = read_list(properties, "ranges")
        if text is None:
            return None
        items = _split_items(text)
        if len(items) % 2:
            raise TimelineInconsistent("a range has only one end", value=text[-80:])
        try:
            ranges = [
                PartitionRange.parse(period, f"{begin},{end}")
                for begin, end in zip(*[iter(items)] * 2, strict=True)
            ]
        except BadInput as error:
            raise TimelineInconsistent(f"invalid range: {error.message}", value=text[-80:]) from error
        edges = [edge for stretch in ranges for edge in (stretch.begin, stretch.end)]
        if any(left >= right for left, right in pairwise(edges)):
            raise TimelineInconsistent(
                "ranges overlap, are adjacent, empty or out of order", period=period.lens_name
            )
        return Runs(edges)

    def blanks(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the values that empty ``ranges``."""
        return blank_list(properties, "ranges")


STORE_ALL: Final = StoreAll()
ENDS_AND_HOLES: Final = EndsAndHoles()
RANGES: Final = Ranges()
_forms: Final[dict[str, StorageForm]] = {}


def register_form(form: StorageForm) -> StorageForm:
    """Register a form under its class name and its short name; the latest registration wins."""
    _forms[form.class_name] = form
    _forms[form.name] = form
    return form


def list_forms() -> list[StorageForm]:
    """Return every registered form once, in the order of registration."""
    return list(dict.fromkeys(_forms.values()))


def find_form(name: str) -> StorageForm:
    """Return the form of a class name or short name.

    Raises ConfigError with the known names for any other. Lens silently falls back to its default instead,
    and then serves an empty timeline.
    """
    if name not in _forms:
        raise ConfigError(
            "unknown storage form",
            name=name,
            known=", ".join(_forms),
            hint="Register the form, or use a known one.",
        )
    return _forms[name]


def _item_length(period: UpdatePeriod, runs: Runs) -> int:
    """Return the length of one partition with its comma."""
    return 0 if runs.first is None else len(period.format(runs.first)) + 1


def _split_items(text: str) -> list[str]:
    return [item for item in _COMMA.split(text.strip()) if item]


def _parse_items(period: UpdatePeriod, items: Iterable[str]) -> list[int]:
    try:
        return [period.parse(item) for item in items]
    except BadPartitionValue as error:
        raise TimelineInconsistent(
            error.message, period=period.lens_name, value=error.context["value"]
        ) from error


def _remove_holes(begin: int, end: int, holes: Runs) -> Runs:
    if begin >= end:
        raise TimelineInconsistent("the first partition is after the latest", first=begin, latest=end - 1)
    if not holes:
        return Runs((begin, end))
    edges = holes.edges()
    if edges[0] <= begin or edges[-1] >= end:
        raise TimelineInconsistent("a hole is outside of first and latest", first=begin, latest=end - 1)
    return Runs((begin, *edges, end))


for _form in (STORE_ALL, ENDS_AND_HOLES, RANGES):
    register_form(_form)
