from __future__ import annotations

import posixpath
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handlers.files.paths import (
    AllowedRoots,
    Location,
    build_cm_path,
    parse_any_location,
    parse_location,
    printable,
    to_target_subdir,
)
from state.errors import UnsafePath


HOSTILE = [
    "..",
    "a/../b",
    "../../etc/passwd",
    "a/./b",
    "/etc/passwd",
    "file:/etc/passwd",
    "hdfs://other/x",
    "a\0b",
    "a\nb",
    "a\r",
    "a\\..\\b",
    "a//b",
    "",
    "a\x7f",
    "a\ud800",
    "/".join(["x" * 255] * 20),
]


@pytest.mark.parametrize(
    ("text", "scheme", "authority", "path", "written"),
    [
        ("file:/a/b", "file", "", "/a/b", "file:/a/b"),
        ("file:///a/b/", "file", "", "/a/b", "file:/a/b"),
        ("file://localhost/a", "file", "", "/a", "file:/a"),
        ("/a//b", "file", "", "/a/b", "file:/a/b"),
        ("HDFS://nn:8020/w", "hdfs", "nn:8020", "/w", "hdfs://nn:8020/w"),
        ("hdfs:///w", "hdfs", "", "/w", "hdfs:/w"),
        ("s3a://bucket/k=1/f", "s3a", "bucket", "/k=1/f", "s3a://bucket/k=1/f"),
        ("abfss://c@acc.dfs.core.windows.net/x", "abfss", "c@acc.dfs.core.windows.net", "/x", None),
        ("/t/hr=10%3A00", "file", "", "/t/hr=10%3A00", "file:/t/hr=10%3A00"),
        ("/", "file", "", "/", "file:/"),
        ("s3a://bucket", "s3a", "bucket", "/", "s3a://bucket/"),
        ("hdfs://nn//w", "hdfs", "nn", "/w", "hdfs://nn/w"),
        ("file:////a", "file", "", "/a", "file:/a"),
    ],
)
def test_a_uri_is_read_as_hadoop_reads_it(
    text: str, scheme: str, authority: str, path: str, written: str | None
) -> None:
    assert parse_location(text) == Location(scheme, authority, path)
    assert str(parse_location(text)) == (written or text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/b",
        "//host/a",
        "file:a",
        "file://other/a",
        "hdfs://na me/a",
        "hdfs://h%2f/a",
        "/a/../b",
        "/a\0",
        ":/a",
    ],
)
def test_anything_but_an_absolute_normal_path_is_refused(text: str) -> None:
    with pytest.raises(UnsafePath):
        parse_location(text)


@pytest.mark.parametrize("relative", HOSTILE)
def test_a_hostile_relative_path_is_refused(relative: str) -> None:
    with pytest.raises(UnsafePath):
        parse_location("/warehouse/t").join(relative)


@given(
    st.lists(
        st.sampled_from(["..", ".", "a", "/", "%2e", "%2f", "\\", "\0", "file:", "é", "%25", "//", "b=c"])
    ).map("".join)
)
@example("%2e%2e%2fx")
@example("p=%2F..%2Fx")
def test_a_joined_path_stays_below_its_root(relative: str) -> None:
    root = parse_location("hdfs://nn/warehouse/t")
    try:
        joined = root.join(relative)
    except UnsafePath:
        return
    assert root.contains(joined)
    assert posixpath.normpath(joined.path) == joined.path
    assert joined.path.startswith("/warehouse/t/")
    assert "\0" not in joined.path
    assert parse_location(str(joined)) == joined


@pytest.mark.parametrize(
    "name",
    [
        "p=%2F..%2Fx",
        "p=..%2F..",
        "p=..",
        "%2e%2e",
        "%252e%252e",
        "a%00b",
        "a%5C..%5Cb",
        "p=\x85",
        "p=\x92",
        "p=\u2028",
        "p=\u2029",
        "x" * 600,
        "é" * 200,
    ],
)
def test_a_name_that_hive_or_an_object_store_allows_is_one_name(name: str) -> None:
    root = parse_location("s3a://bucket/warehouse/t")
    assert root.child(name).name == name
    assert root.join(f"{name}/f").parent == root.child(name)
    assert parse_location(f"{root}/{name}") == root.child(name)
    assert to_target_subdir(name) == name


@given(
    st.builds(
        "{}{}".format,
        st.sampled_from(
            [
                "file:",
                "file://",
                "file:///",
                "hdfs://nn:8020",
                "s3a://b.c",
                "HDFS://nn",
                "file://h",
                "x1:",
                "1x:",
                "",
            ]
        ),
        st.text(alphabet="/.ab=%-\\é\n", max_size=30),
    )
)
@example("file:/" + "/".join(["x" * 255] * 20))
@example("file:/" + "x" * 256)
@example("file:/..")
@example("file:/a/..\n")
@example("file:/a\n")
@example("file:/...")
def test_an_ordinary_uri_is_read_at_once_as_name_by_name(uri: str) -> None:
    assert location_or_none(parse_location, uri) == location_or_none(parse_any_location, uri)


def location_or_none(parse: Callable[[str], Location], uri: str) -> Location | None:
    try:
        return parse(uri)
    except UnsafePath:
        return None


@given(st.text(max_size=40))
def test_any_text_is_a_location_or_unsafe(text: str) -> None:
    for read in (parse_location, parse_location("/w").join, parse_location("/w").child, to_target_subdir):
        result = outcome(read, text)
        assert {"\0", "\n", "\r", "\x1b"}.isdisjoint(str(result))


def outcome(read: Callable[[str], object], text: str) -> object:
    try:
        return read(text)
    except UnsafePath as error:
        return error


def test_a_location_contains_itself_and_what_is_below_but_not_similar_names() -> None:
    root = parse_location("/w/t")
    assert root.contains(root)
    assert root.contains(parse_location("/w/t/x"))
    assert not root.contains(parse_location("/w/t2"))
    assert not root.contains(parse_location("/w"))
    assert not root.contains(parse_location("hdfs://nn/w/t/x"))
    assert parse_location("/").contains(root)


def test_only_files_below_an_allowed_root_may_be_read() -> None:
    allowed = AllowedRoots.of(["hdfs://nn/warehouse", "hdfs://nn/cm"])
    inside = parse_location("hdfs://nn/warehouse/t/f")
    assert allowed.require(inside) is inside
    for outside in (
        "hdfs://nn/warehouse",
        "hdfs://nn/warehouse2/f",
        "hdfs://other/warehouse/f",
        "file:/warehouse/f",
    ):
        with pytest.raises(UnsafePath):
            allowed.require(parse_location(outside))
    with pytest.raises(UnsafePath):
        AllowedRoots().require(inside)


@pytest.mark.parametrize(
    ("subdir", "expected"),
    [
        ("", ""),
        ("delta_0000005_0000005_0000", "delta_0000005_0000005_0000"),
        ("delta_0000001_0000004_v0000012", "delta_0000001_0000004"),
        ("delete_delta_0000005_0000005_0001", "delete_delta_0000005_0000005_0001"),
        ("base_0000005_v0000012", "base_0000005"),
        ("base_5_v12", "base_5"),
        ("base_-9223372036854775808_v0000003", "base_-9223372036854775808"),
        ("delta_0000003_0000003_0001/HIVE_UNION_SUBDIR_2", "delta_0000003_0000003_0001/HIVE_UNION_SUBDIR_2"),
        ("HIVE_UNION_SUBDIR_1/base_0000002_v9", "HIVE_UNION_SUBDIR_1/base_0000002"),
    ],
)
def test_the_visibility_suffix_of_compacted_directories_is_dropped(subdir: str, expected: str) -> None:
    assert to_target_subdir(subdir) == expected


@pytest.mark.parametrize(
    "subdir",
    [
        *(text for text in HOSTILE if text and len(text) < 4096),
        "delta_5",
        "delta_0000006_0000005",
        "base_x",
        "base_5_v",
        "delta_5_5_",
        "delta_\u0665_\u0665",
    ],
)
def test_a_malformed_acid_directory_is_refused(subdir: str) -> None:
    with pytest.raises(UnsafePath):
        to_target_subdir(subdir)


def test_the_change_manager_names_a_copy_by_its_checksum() -> None:
    assert build_cm_path(parse_location("hdfs://nn/cm"), "bucket_00000_0", "9f3a") == parse_location(
        "hdfs://nn/cm/bucket_00000_0_9f3a"
    )


@pytest.mark.parametrize(("length", "kept"), [(222, 255), (223, 254), (255, 254)])
def test_a_long_name_is_cut_to_one_less_than_fits_as_in_hive(length: int, kept: int) -> None:
    name = "n" * length
    assert build_cm_path(parse_location("/cm"), name, "c" * 32).name == f"{name}_{'c' * 32}"[:kept]


def test_a_checksum_that_is_a_path_is_refused() -> None:
    with pytest.raises(UnsafePath):
        build_cm_path(parse_location("/cm"), "f", "/../../etc/passwd")


def test_text_in_messages_is_short_and_printable() -> None:
    assert printable("a\n\x1b[31m\ud800") == "a\\n\\x1b[31m\\ud800"
    assert len(printable("x" * 10_000)) == 201
