"""Token files: what they may hold, and that they are read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.http.tokens import CHARACTERS_MIN, CHECK_S, FILE_BYTES_MAX, Client, Role, TokenFile, Tokens
from state.errors import ConfigError


OLD, NEW = "o" * CHARACTERS_MIN, "n" * CHARACTERS_MIN
GRAFANA = Client("grafana", Role.VIEW)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"# of June\n{OLD}\n\n")
    return path


@pytest.fixture
def tokens(file: Path, clock: Clock) -> Tokens:
    return Tokens([TokenFile(GRAFANA, file)], clock)


def test_a_token_belongs_to_its_client_and_others_to_nobody(tokens: Tokens) -> None:
    assert tokens.find(OLD) == GRAFANA
    for stranger in ("", NEW, OLD + "o", OLD[1:], "# of June", "\udcff", "ä"):
        assert tokens.find(stranger) is None


def test_a_file_is_read_again_when_it_has_changed(tokens: Tokens, file: Path, clock: Clock) -> None:
    file.write_text(f"{OLD}\n{NEW}\n")
    assert tokens.find(NEW) is None
    clock.now_s += CHECK_S
    assert tokens.find(NEW) == tokens.find(OLD) == GRAFANA
    file.write_text(f"{NEW} \n")
    clock.now_s += CHECK_S
    assert (tokens.find(OLD), tokens.find(NEW)) == (None, GRAFANA)


def test_a_file_that_is_replaced_by_another_of_the_same_size_is_read_again(
    tokens: Tokens, file: Path, clock: Clock
) -> None:
    other = file.with_name("other")
    other.write_text(f"# of July\n{NEW}\n\n")
    other.replace(file)
    clock.now_s += CHECK_S
    assert (tokens.find(OLD), tokens.find(NEW)) == (None, GRAFANA)


@pytest.mark.parametrize(
    "content", [b"", b"# none\n", b"short\n", b"two words of a long line\n", b"\xff" * 20]
)
def test_a_file_that_cannot_be_used_any_more_has_no_token_until_it_can(
    tokens: Tokens, file: Path, clock: Clock, content: bytes
) -> None:
    file.write_bytes(content)
    clock.now_s += CHECK_S
    assert tokens.find(OLD) is None
    file.write_text(OLD)
    clock.now_s += CHECK_S
    assert tokens.find(OLD) == GRAFANA


def test_a_token_of_a_removed_file_is_not_accepted(tokens: Tokens, file: Path, clock: Clock) -> None:
    file.unlink()
    clock.now_s += CHECK_S
    assert tokens.find(OLD) is None


@pytest.mark.parametrize(
    "content", [None, b"", b"short", b"two words of a long line", b"\xff" * 20, b"x" * (FILE_BYTES_MAX + 1)]
)
def test_a_file_that_cannot_be_used_at_the_start_is_a_configuration_error(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Tokens([TokenFile(GRAFANA, path)])
    assert caught.value.context["key"] == "http.tokens.grafana.file"
    assert "short" not in str(caught.value)


def test_the_own_token_operates_and_is_new_each_time() -> None:
    tokens = Tokens(())
    own = tokens.add_own("here")
    assert tokens.find(own) == Client("here", Role.OPERATE)
    assert Tokens(()).add_own("here") != own
    assert len(tokens) == 0
