"""The Java process for expressions: what is missing or does not start is reported, and nothing is left
behind."""

from __future__ import annotations

import shutil

import pytest

from handlers.expressions import java_process
from handlers.expressions.java_process import JavaProcess
from state.errors import ConfigError, ServerFault


def test_a_machine_without_java_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ConfigError, match="needs Java") as refusal:
        JavaProcess()
    assert "JAVA_HOME" in str(refusal.value.hint)


def test_an_installation_without_the_jars_is_reported_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_process, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="jars") as refusal:
        JavaProcess(java="/bin/echo")
    assert "flat" in str(refusal.value.hint)


@pytest.mark.parametrize("program", ["/bin/echo", "/bin/false", "/no/such/java"])
def test_a_program_that_is_not_java_is_reported(program: str) -> None:
    with pytest.raises(ServerFault, match="did not start"):
        JavaProcess(java=program)
