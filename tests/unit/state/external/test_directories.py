"""Which directories of external tables are copied, and the list of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import BadInput
from state.external.directories import (
    TableDirectories,
    find_collisions,
    format_directories,
    is_below,
    parse_directories,
    select_outermost,
    select_replaced,
)


NAMES = st.sampled_from(["a", "b", "a-b", "a=1", "ab"])
DIRECTORIES = st.builds(
    lambda scheme, names: scheme + "/".join(names),
    st.sampled_from(["hdfs://nn/", "s3a://lake/"]),
    st.lists(NAMES, max_size=4),
)


def lies_below(directory: str, root: str) -> bool:
    """The naive model: compare the names of the path one by one."""
    ours, theirs = directory.split("/"), root.split("/")
    theirs = theirs[:-1] if theirs[-1] == "" else theirs
    return ours[: len(theirs)] == theirs


def test_files_are_replaced_only_where_no_other_kind_of_table_is() -> None:
    def table(root: str, *outside: str, is_replaced: bool = False) -> TableDirectories:
        return TableDirectories("t", root, outside, is_replaced)

    replaced = [table(f"file:/w/{name}", is_replaced=True) for name in ("a", "b", "ab", "shared", "far")]
    others = [table("file:/w/b/inner"), table("file:/x", "file:/w/far/dt=1"), table("file:/w/shared")]
    assert select_replaced([*replaced, *others]) == {"file:/w/a", "file:/w/ab"}


@given(DIRECTORIES, DIRECTORIES)
def test_a_directory_is_below_another_one_by_whole_names(directory: str, root: str) -> None:
    assert is_below(directory, root) == lies_below(directory, root)


@given(st.lists(DIRECTORIES, max_size=12))
def test_nested_directories_are_listed_once(directories: list[str]) -> None:
    naive = {
        each
        for each in directories
        if not any(lies_below(each, other) and each != other for other in directories)
    }
    assert set(select_outermost(directories)) == naive
    assert len(select_outermost(directories)) == len(naive)


@given(st.lists(DIRECTORIES, max_size=12))
def test_directories_that_would_meet_on_the_target_are_found(directories: list[str]) -> None:
    sources = select_outermost(directories)
    targets = {each: "hdfs://dr/base/" + each.split("/", 3)[3] for each in sources}
    targets = {source: target.rstrip("/") for source, target in targets.items()}
    naive = {
        each
        for each in sources
        for other in sources
        if each != other
        and (lies_below(targets[each], targets[other]) or lies_below(targets[other], targets[each]))
    }
    assert find_collisions(targets) == naive


def test_a_table_has_one_line_and_one_more_for_each_directory_outside_of_it() -> None:
    table = TableDirectories.of(
        "sales",
        "hdfs://nn/ext/sales",
        ["hdfs://nn/ext/sales/dt=1", "hdfs://nn/old/a", "hdfs://nn/old/a/b", "hdfs://nn/old/ab"],
    )
    assert table.outside == ("hdfs://nn/old/a", "hdfs://nn/old/ab")
    text = format_directories([table, TableDirectories("clicks", "s3a://lake/clicks")])
    assert text.splitlines()[0] == "clicks,czNhOi8vbGFrZS9jbGlja3M="
    assert list(parse_directories(text)) == [
        ("clicks", "s3a://lake/clicks"),
        ("sales", "hdfs://nn/ext/sales"),
        ("sales", "hdfs://nn/old/a"),
        ("sales", "hdfs://nn/old/ab"),
    ]


@given(st.lists(st.tuples(NAMES, DIRECTORIES, st.lists(DIRECTORIES, max_size=4)), unique_by=lambda t: t[0]))
def test_a_list_that_was_written_is_read_back(tables: list[tuple[str, str, list[str]]]) -> None:
    listed = [TableDirectories.of(*table) for table in tables]
    expected = [
        (each.table, directory)
        for each in sorted(listed, key=lambda each: each.table)
        for directory in each.all
    ]
    assert list(parse_directories(format_directories(listed))) == expected


@pytest.mark.parametrize("line", ["sales", "sales,", ",aGRmcw==", "sales,?", "sales,/w=="])
def test_a_line_that_is_none_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(BadInput, match="TABLE,BASE64") as refused:
        list(parse_directories(f"clicks,czNhOi8vbGFrZQ==\n{line}\n"))
    assert refused.value.context["line"] == 2
