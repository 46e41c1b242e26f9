from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.decoding.fields import pair_with_checksums, parse_source_file
from handlers.decoding.messages import Limits
from handlers.events import SourceFile
from state.errors import BadInput, LimitExceeded, MalformedEvent


LIMITS = Limits()
PATHS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="#"), max_size=40)


def test_the_four_pieces_of_an_entry_have_names() -> None:
    entry = (
        "hdfs://s/w/t/delta_0000001_0000001_0000/bucket_00000_0#9f3a#hdfs://s/cm#delta_0000001_0000001_0000"
    )
    assert parse_source_file(entry, LIMITS) == SourceFile(
        uri="hdfs://s/w/t/delta_0000001_0000001_0000/bucket_00000_0",
        checksum="9f3a",
        cm_root="hdfs://s/cm",
        subdir="delta_0000001_0000001_0000",
    )


def test_empty_pieces_are_absent() -> None:
    assert parse_source_file("file:/w/t/000000_0###", LIMITS) == SourceFile("file:/w/t/000000_0")


def test_the_directory_of_a_compaction_keeps_its_suffix() -> None:
    entry = "file:/w/t/base_0000008_v0000031/bucket_00000###base_0000008_v0000031"
    assert parse_source_file(entry, LIMITS).subdir == "base_0000008_v0000031"


@pytest.mark.parametrize(
    "entry", ["", "#", "###", "file:/a", "file:/a#1", "file:/a#1#2", "file:/a#b#1#2#3", "#1#2#3"]
)
def test_an_entry_of_another_form_is_malformed(entry: str) -> None:
    with pytest.raises(MalformedEvent):
        parse_source_file(entry, LIMITS)


@pytest.mark.parametrize("piece", range(4))
def test_every_piece_is_limited(piece: int) -> None:
    pieces = ["u", "c", "r", "s"]
    pieces[piece] = "x" * (LIMITS.path_chars + 1)
    with pytest.raises(LimitExceeded):
        parse_source_file("#".join(pieces), LIMITS)


@given(PATHS.filter(bool), PATHS, PATHS, PATHS)
def test_an_entry_can_be_rebuilt_from_its_parts(uri: str, checksum: str, root: str, subdir: str) -> None:
    entry = f"{uri}#{checksum}#{root}#{subdir}"
    file = parse_source_file(entry, LIMITS)
    assert "#".join((file.uri, file.checksum or "", file.cm_root or "", file.subdir)) == entry


@given(st.text(max_size=60))
def test_any_text_is_a_file_or_a_typed_error(text: str) -> None:
    with suppress(BadInput):
        assert parse_source_file(text, LIMITS).uri


def test_files_and_checksums_are_joined_pairwise() -> None:
    assert pair_with_checksums(("a", "b"), ("1", ""), LIMITS) == (SourceFile("a", "1"), SourceFile("b"))
    assert pair_with_checksums(("a",), (), LIMITS) == (SourceFile("a"),)
    with pytest.raises(MalformedEvent):
        pair_with_checksums(("a",), ("1", "2"), LIMITS)
