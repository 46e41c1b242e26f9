"""The command line: exit codes, errors without tracebacks, JSON output, and fast --help."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.service.capabilities import all_commands
from daemon.service.command_line import call
from daemon.state_directory.directory import write_atomically
from daemon.terminal.layout import failure_lines
from state.errors import ConfigError, GapDetected
from tests.builders.daemon.loops import daemon_status
from tests.builders.daemon.tideline_process import tideline


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tideline.yaml"
    path.write_text(f"state: {{dir: {tmp_path}/state}}\nhttp: {{port: 0}}\n")
    return path


def test_an_error_of_the_tree_is_printed_with_its_values_and_hint() -> None:
    error = GapDetected("events are missing", first=5, last=9, nothing=None, hint="Bootstrap again.")
    assert failure_lines(error) == [
        "Error [gap]: events are missing",
        "  first=5, last=9",
        "  Bootstrap again.",
    ]
    assert len(failure_lines(ConfigError("x", hint=""))) == 1


def test_control_characters_of_an_error_are_escaped() -> None:
    (first, *_) = failure_lines(ConfigError("a\x1b[2Jb\nc"))
    assert first == "Error [config]: a\\x1b[2Jb\\nc"


def test_a_defect_is_printed_with_an_instruction(capsys: pytest.CaptureFixture[str]) -> None:
    assert failure_lines(KeyError("x"))[0] == "Error [defect]: KeyError: 'x'"


def test_a_full_disk_is_no_defect() -> None:
    lines = failure_lines(OSError(errno.ENOSPC, "No space left on device"))
    assert lines[0] == (
        "Error [operating-system]: the operating system refused to read or write: No space left on device"
    )
    assert "defect" not in "".join(lines)
    assert "defect" in "".join(failure_lines(FileNotFoundError(errno.ENOENT, "No such file")))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["status", "--help"], 0),
        (["version"], 0),
        (["nonsense"], 2),
        (["status", "--nonsense"], 2),
        (["dlq", "show", "minus-one"], 2),
        (["bootstrap"], 2),
        (["config", "check", "-c", "/nonexistent/tideline.yaml"], 1),
        (["run", "-c", "/nonexistent/tideline.yaml"], 1),
        (["status", "--url", "ftp://nonsense"], 1),
    ],
)
def test_exit_codes_are_0_for_success_1_for_failure_and_2_for_usage(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(arguments) == code
    assert "Traceback" not in capsys.readouterr().err


def test_debug_shows_where_a_failure_came_from() -> None:
    with pytest.raises(ConfigError):
        call(["--debug", "status", "--url", "ftp://nonsense"])


def test_check_prints_every_problem_and_fails(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("logs: {level: loud}\nhttp: {port: -1, prot: 1}\n")
    assert call(["config", "check", "-c", str(config)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith(f"Error [config]: {config}:1: logs.level = loud:")
    assert lines[-1] == f"{config}: 3 problems"


def test_check_in_json_has_the_same_problems(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("logs: {level: loud}\n")
    assert call(["config", "check", "--json", "-c", str(config)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert [problem["key"] for problem in found["problems"]] == ["logs.level"]


def test_check_of_a_valid_file_reports_no_problems(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("sources: {lake: {metastore: 'thrift://a:1', topic: t}}\nkafka: {bootstrap: 'k:1'}\n")
    assert call(["config", "check", "-c", str(config)]) == 0
    assert capsys.readouterr().out == f"{config}: no problems\n"


@pytest.mark.parametrize("text", ["", "http: {port: 0}\n", "targets: {dr: {metastore: 'thrift://a:1'}}\n"])
def test_a_configuration_with_which_the_daemon_would_run_nothing_is_an_error(
    text: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(text)
    assert call(["config", "check", "-c", str(config)]) == 1
    error, summary = capsys.readouterr().out.splitlines()
    assert error.startswith(f"Error [config]: {config}: nothing is configured")
    assert summary == f"{config}: 1 problem"


@pytest.mark.parametrize("command", ["run", "relay"])
def test_the_daemon_refuses_to_run_nothing(command: str, tmp_path: Path) -> None:
    config = tmp_path / "tideline.yaml"
    config.write_text(f"state: {{dir: {tmp_path}/state}}\nhttp: {{port: 0}}\n")
    done = tideline(config, command)
    assert done.returncode == 1
    assert done.stderr.startswith("Error [config]: the configuration contains nothing to run")


@pytest.mark.parametrize("command", ["timeline show", "partitions list"])
def test_a_query_before_the_first_start_says_so_and_creates_no_state_file(
    command: str, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(
        f"sources: {{lake: {{metastore: ['thrift://a:1'], topic: t}}}}\nkafka: {{bootstrap: 'k:1'}}\n"
        f"catalog: {{lake: {{rules: {{all: {{tables: ['*.*']}}}}, partitions: {{tables: ['*.*']}}}}}}\n"
        f"state: {{dir: {tmp_path / 'state'}}}\n"
    )
    assert call([*command.split(), "-c", str(config)]) == 1
    assert "the catalog has no state yet" in capsys.readouterr().err
    assert not (tmp_path / "state" / "catalog-lake.db").exists()


@pytest.mark.parametrize(
    "command",
    [
        "promote shop --dry-run",
        "promote shop --yes",
        "release shop orders",
        "pause shop",
        "prune shop --dry-run",
    ],
)
@pytest.mark.parametrize("bootstrap", ["manual", "auto"])
def test_a_request_to_a_policy_without_state_is_refused_and_creates_no_state_file(
    command: str, bootstrap: str, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(
        f"sources: {{lake: {{metastore: ['thrift://a:1'], topic: t, read_roots: ['file:///w']}}}}\n"
        f"targets: {{dr: {{metastore: ['thrift://b:1']}}}}\nkafka: {{bootstrap: 'k:1'}}\n"
        f"policies: {{shop: {{source: lake, target: dr, database: shop, bootstrap: {bootstrap}}}}}\n"
        f"state: {{dir: {tmp_path / 'state'}}}\n"
    )
    assert call([*command.split(), "-c", str(config)]) == 1
    assert "the policy has no state here" in capsys.readouterr().err
    assert not (tmp_path / "state" / "replication-shop.db").exists()


def test_show_prints_the_settings_in_effect_without_secrets(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", "hunter2")
    monkeypatch.setenv("TIDELINE__LOGS__LEVEL", "debug")
    config.write_text("kafka: {bootstrap: 'k:1', secrets: {sasl.password: {env: PASSWORD}}}\n")
    assert call(["config", "show", "--json", "-c", str(config)]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)["logs"]["level"] == "debug"
    assert "hunter2" not in shown


def test_show_masks_what_is_not_known_to_be_harmless(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem",
        "linger.ms": 5,
        "sasl.extras": "hunter2",
    }
    config.write_text(json.dumps({"kafka": {"bootstrap": "k:1", "options": options}}))
    assert call(["config", "show", "--json", "-c", str(config)]) == 0
    assert json.loads(capsys.readouterr().out)["kafka"]["options"] == {**options, "sasl.extras": "***"}


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["additionalProperties"] is False


def test_status_without_a_daemon_shows_the_last_status_and_fails(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["status", "-c", str(config)]) == 1
    assert "no daemon is running" in capsys.readouterr().err
    (tmp_path / "state").mkdir()
    write_atomically(tmp_path / "state" / "status.json", daemon_status().to_json())
    assert call(["status", "-c", str(config)]) == 1
    assert "not running; last known at" in capsys.readouterr().out
    assert call(["status", "--json", "-c", str(config)]) == 1
    assert json.loads(capsys.readouterr().out)["state"] == "stopped"


def test_an_unknown_policy_cannot_be_bootstrapped(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["bootstrap", "shop", "-c", str(config)]) == 1
    assert "unknown policy" in capsys.readouterr().err


def test_a_command_without_a_configuration_file_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("daemon.config.load.DEFAULT_PATHS", (Path("tideline.yaml"),))
    assert call(["bootstrap", "shop"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("No configuration file found (tideline.yaml)")
    assert "unknown policy" in printed


def test_dead_letters_require_a_broker(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["dlq", "list", "-c", str(config)]) == 1
    assert "kafka.bootstrap" in capsys.readouterr().err


def test_help_lists_the_commands_by_topic_without_internal_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--help"]) == 0
    shown = capsys.readouterr().out
    headings = [
        "Daemon:",
        "Replicas:",
        "Timelines and partition index:",
        "Flat tables:",
        "Metastore endpoint:",
    ]
    assert [shown.index(heading) for heading in headings] == sorted(
        shown.index(heading) for heading in headings
    )
    listed = {name for name in all_commands() if f"\n  {name} " in shown}
    assert set(all_commands()) - listed == {"copyjob", "executor"}


def test_help_imports_no_large_library() -> None:
    code = """
import sys
from daemon.service.command_line import call
call(["--help"])
heavy = {"pydantic", "structlog", "confluent_kafka", "hmsclient", "pyarrow", "uvicorn", "prometheus_client"}
heavy &= set(sys.modules)
sys.exit(str(sorted(heavy)) if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("command", ["status", "config check"])
def test_status_and_checks_load_no_library_of_a_server(command: str, config: Path) -> None:
    config.write_text(f"state: {{dir: {config.parent / 'state'}}}\n")
    code = f"""
import sys
from daemon.service.command_line import call
call([*{command.split()!r}, "-c", {str(config)!r}])
heavy = {{"sqlalchemy", "hmsclient", "confluent_kafka", "pyarrow", "uvicorn"}} & set(sys.modules)
sys.exit(str(sorted(heavy)) if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_daemon_loads_neither_arrow_nor_spark() -> None:
    code = """
import sys
import daemon.service
heavy = {"pyarrow", "pyspark", "numpy", "pandas"} & set(sys.modules)
sys.exit(str(sorted(heavy)) if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_the_option_and_the_command_print_the_same_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--version"]) == 0
    by_option = capsys.readouterr().out
    assert call(["version"]) == 0
    assert capsys.readouterr().out == by_option
    assert by_option.startswith("tideline ")


def test_every_failure_has_the_same_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["status", "--nonsense"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "Error [usage]: No such option '--nonsense'.",
        "  Run 'tideline status --help' to see the usage.",
    ]


@pytest.mark.parametrize(
    "words", [[], *([name] for name, each in all_commands().items() if not each.is_internal)]
)
def test_no_line_of_a_help_is_cut(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call([*words, "--help"]) == 0
    _, _, described = capsys.readouterr().out.partition("\n\n")
    assert not [line for line in described.splitlines() if line.endswith("...")]
