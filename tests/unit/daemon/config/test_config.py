"""Reading the configuration: every problem at once, each with its place; nothing secret shown; nothing passed
over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from daemon.config.document import Problem
from daemon.config.load import Loaded, find_file
from daemon.config.reference import markdown
from daemon.flat.settings import FLAT as FLAT_SECTION
from daemon.kafka.signatures import Signatures, source_signatures
from daemon.service.configuration import config_model, config_reader, load_config
from state.errors import ConfigError


Read = Callable[..., Loaded]
"""Reads a text as the configuration file, with the environment given by name."""

GOOD = """\
    sources:
      lake: {metastore: [thrift://a:9083, thrift://b], topic: tideline.lake, read_roots: ["hdfs://s/w"]}
    targets:
      dr: {metastore: thrift://c:9083}
    policies:
      shop: {source: lake, target: dr, database: shop}
    kafka: {bootstrap: "k:9092"}
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reader(text: str, **environment: str) -> Loaded:
        path = tmp_path / "tideline.yaml"
        path.write_text(dedent(text))
        return config_reader().read(path, environment)

    return reader


def problem(loaded: Loaded, key: str) -> Problem:
    return next(found for found in loaded.problems if found.key == key)


def test_a_good_file_has_no_problems_and_defaults_fill_the_rest(read: Read) -> None:
    loaded = read(GOOD)
    assert loaded.problems == ()
    assert loaded.config is not None
    assert loaded.config.sources["lake"].metastore == ["thrift://a:9083", "thrift://b:9083"]
    assert loaded.config.policies["shop"].replica_database == "shop"
    assert loaded.config.http.port == 8470


def test_no_file_means_the_defaults() -> None:
    loaded = config_reader().read(None, {})
    assert loaded.config == config_model()()


def test_every_problem_is_reported_at_once_with_its_line(read: Read) -> None:
    loaded = read("""\
        sources:
          lake:
            metastore: ["http://a:1"]
            topic: "no topic"
            formt: auto
            relay: {batch_events: 0}
        policies:
          Shop: {source: lak, target: dr, database: SHOP, on_failure: maybe}
        supervisor: {backoff_min_s: 50, backoff_max_s: 5}
    """)
    assert loaded.config is None
    found = {(found.key, found.place.rpartition(":")[2]) for found in loaded.problems}
    assert found >= {
        ("sources.lake.metastore.0", "3"),
        ("sources.lake.topic", "4"),
        ("sources.lake.formt", "5"),
        ("sources.lake.relay.batch_events", "6"),
        ("policies.Shop", "8"),
        ("policies.Shop.database", "8"),
        ("policies.Shop.on_failure", "8"),
        ("policies.Shop.source", "8"),
        ("policies.Shop.target", "8"),
        ("supervisor.backoff_min_s", "9"),
    }
    assert problem(loaded, "kafka.bootstrap").reason.startswith("must be set")


def test_a_name_that_is_nearly_right_is_suggested(read: Read) -> None:
    loaded = read(GOOD.replace("source: lake", "source: laek"))
    assert problem(loaded, "policies.shop.source").hint == "did you mean 'lake'?"


@pytest.mark.parametrize(
    ("line", "key", "hint"),
    [
        ("sources: {lake: {topik: t}}", "sources.lake.topik", "did you mean 'topic'?"),
        ("htp: {port: 1}", "htp", "did you mean 'http'?"),
        (
            "mining: {sources: {logs: {kind: trino, topik: t}}}",
            "mining.sources.logs.topik",
            "did you mean 'topic'?",
        ),
        ("http: {colour: red}", "http.colour", "run 'tideline config schema' to list all settings"),
    ],
)
def test_an_unknown_setting_gets_the_known_one_that_it_resembles(
    read: Read, line: str, key: str, hint: str
) -> None:
    unknown = problem(read(line), key)
    assert (unknown.reason, unknown.hint) == ("unknown setting", hint)


FLAT = "flat: {f: {table: a.f, raw_table: a.r, rules: {%s}}}"


def test_the_former_name_of_a_setting_is_read_and_reported(read: Read) -> None:
    loaded = read(FLAT % "asked_days: 20", TIDELINE__FLAT__G__RULES__ASKED_DAYS="7")
    assert loaded.config is None, "the table g has no name"
    warnings = [str(each) for each in loaded.problems if each.warning]
    assert sorted(each.partition(": ")[2] for each in warnings) == [
        f"flat.{name}.rules.asked_days: was renamed to 'requested_days' (use the new name)" for name in "fg"
    ]
    config = read(FLAT % "asked_days: 20").config
    assert config is not None
    assert FLAT_SECTION.of(config)["f"].rules.requested_days == 20


def test_problems_of_a_setting_with_its_former_name_have_its_line(read: Read) -> None:
    loaded = read("flat:\n  f:\n    table: a.f\n    raw_table: a.r\n    rules:\n      asked_days: 0\n")
    assert problem(loaded, "flat.f.rules.requested_days").place.endswith(":6")


def test_a_setting_with_both_names_is_a_problem(read: Read) -> None:
    found = problem(read(FLAT % "asked_days: 20, requested_days: 21"), "flat.f.rules.asked_days")
    assert (found.warning, found.reason) == (
        False,
        "is the former name of 'requested_days', which is also set",
    )


def test_a_missing_setting_is_reported_at_its_section(read: Read) -> None:
    loaded = read(GOOD.replace(", database: shop", ""))
    missing = problem(loaded, "policies.shop.database")
    assert missing.reason == "is missing"
    assert missing.place.endswith(":6")


def test_a_key_that_is_given_twice_is_a_problem(read: Read) -> None:
    loaded = read("logs: {level: info, level: debug}")
    assert problem(loaded, "logs.level").reason == "is given twice"


def test_two_policies_for_one_target_database_are_a_problem(read: Read) -> None:
    text = GOOD.replace(
        "    policies:\n", "    policies:\n      again: {source: lake, target: dr, database: shop}\n"
    )
    loaded = read(text)
    assert "is already the target of policy 'again'" in problem(loaded, "policies.shop.database").reason


BASES = """
policies:
  one: {{source: lake, target: dr, database: a, external_base: "hdfs://dr/base"}}
  two: {{source: {source}, target: dr, database: b, external_base: "{base}"}}
"""


@pytest.mark.parametrize(
    ("source", "base", "collides"),
    [
        ("lake", "hdfs://dr/base", False),
        ("pond", "hdfs://dr/base", True),
        ("pond", "hdfs://dr//base/", True),
        ("pond", "hdfs://dr/base/pond", True),
        ("pond", "hdfs://dr/", True),
        ("pond", "hdfs://dr/base2", False),
        ("pond", "hdfs://other/base", False),
    ],
)
def test_external_tables_of_two_sources_need_bases_of_their_own(
    read: Read, source: str, base: str, collides: bool
) -> None:
    loaded = read(BASES.format(source=source, base=base))
    found = [each for each in loaded.problems if each.key == "policies.two.external_base"]
    assert [each.reason for each in found] == (
        ["overlaps the base of policy 'one', which has another source"] if collides else []
    )


def test_copies_of_external_tables_need_a_base(read: Read) -> None:
    text = GOOD.replace(
        "    policies:\n",
        "    policies:\n      ext: {source: lake, target: dr, database: ext, external: {every_s: 60}}\n",
    )
    assert "must be set" in problem(read(text), "policies.ext.external_base").reason


def test_two_sources_with_one_topic_are_a_problem(read: Read) -> None:
    text = GOOD.replace(
        "    targets:\n", "      pond: {metastore: thrift://d, topic: tideline.lake}\n    targets:\n"
    )
    assert "is already the topic of source 'lake'" in problem(read(text), "sources.pond.topic").reason


def test_mining_requires_raw_tables_and_sources(read: Read) -> None:
    whole = (
        "mining: {every_s: 60, raw_tables: {web.raw: {json_column: json}}, sources: {r: {kind: "
        "sql-files, path: /q}}}"
    )
    assert read(whole).problems == ()
    assert "must have raw_tables" in problem(read("mining: {every_s: 60}"), "mining").reason
    without_sources = read("mining: {every_s: 60, raw_tables: {web.raw: {json_column: json}}}")
    assert "must have sources" in problem(without_sources, "mining").reason


def test_a_policy_requires_the_read_roots_of_its_source(read: Read) -> None:
    loaded = read(GOOD.replace(', read_roots: ["hdfs://s/w"]', ""))
    assert problem(loaded, "sources.lake.read_roots").place.endswith(":2")


def test_the_environment_overrides_single_keys(read: Read) -> None:
    loaded = read(
        GOOD,
        TIDELINE__HTTP__PORT="9000",
        TIDELINE__SOURCES__LAKE__METASTORE="thrift://x:1,thrift://y:2",
        TIDELINE__SOURCES__LAKE__RELAY__ENABLED="false",
        TIDELINE__POLICIES__SHOP__TABLES__EXCLUDE='["tmp_*", "x"]',
        UNRELATED="1",
    )
    assert loaded.config is not None
    assert loaded.config.http.port == 9000
    assert loaded.config.sources["lake"].metastore == ["thrift://x:1", "thrift://y:2"]
    assert loaded.config.sources["lake"].relay.enabled is False
    assert loaded.config.policies["shop"].tables.exclude == ["tmp_*", "x"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TIDELINE__HTTP__PROT", "http.prot"),
        ("TIDELINE__HTPP__PORT", "htpp"),
        ("TIDELINE__HTTP____PORT", "http..port"),
    ],
)
def test_a_misspelt_variable_is_a_problem_at_that_variable(read: Read, name: str, key: str) -> None:
    loaded = read(GOOD, **{name: "1"})
    assert problem(loaded, key).place == name


def test_a_relay_may_start_at_an_event_id_given_as_text(read: Read) -> None:
    loaded = read(GOOD, TIDELINE__SOURCES__LAKE__RELAY__START="120")
    assert loaded.config is not None
    assert loaded.config.sources["lake"].relay.start == 120


def test_a_secret_is_read_from_its_file_or_variable_and_never_shown(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    monkeypatch.setenv("S3_SECRET", "opensesame")
    loaded = read(f"""\
        kafka:
          bootstrap: k:9092
          secrets: {{sasl.password: {{file: {tmp_path}/password}}}}
        files: {{secrets: {{s3a: {{secret_key: {{env: S3_SECRET}}}}}}}}
    """)
    assert loaded.config is not None
    assert set(loaded.config.secrets()) == {"hunter2", "opensesame"}
    shown = f"{loaded.config!r}{loaded.config.model_dump_json()}"
    assert "hunter2" not in shown
    assert "opensesame" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "kafka: {bootstrap: 'k:1', secrets: {sasl.password: hunter2}}",
        "kafka: {bootstrap: 'k:1', options: {sasl.password: hunter2}}",
        "kafka: {bootstrap: 'k:1', pasword: hunter2}",
        "kafka: {bootstrap: 'k:1', secrets: {sasl.password: {fil: hunter2}}}",
        "files: {secrets: {s3a: hunter2}}",
        "kafka: {bootstrap: 'k:1', options: {sasl.jaas.config: hunter2}}",
        "kafka: {bootstrap: 'k:1', options: {ssl.key.pem: hunter2}}",
        "kafka: {bootstrap: 'k:1', options: {client.id: 'x password=hunter2'}}",
        "kafka: {bootstrap: 'k:1', options: {sasl.password: 12345, client.id: 'a?sig=hunter2'}}",
        "files: {options: {abfs: {account_key: hunter2}}}",
        "files: {options: {abfs: {sas_token: 'sig=hunter2'}}}",
        "files: {options: {s3a: {endpoint_override: 'https://me:hunter2@s3'}}}",
        "files: {options: {hdfs: {fs.azure.account.key.lake: hunter2}}}",
        "keylog: {url: 'mysql://me:hunter2@host/db'}",
        "keylog: {url: 'mysql://me@host/db?password=hunter2'}",
        "sources: {lake: {metastore: 'thrift://me:hunter2@a:1', topic: t}}",
        "sources: {lake: {metastore: 'thrift://a:1', topic: t, read_roots: ['s3a://me:hunter2@b/a']}}",
    ],
)
def test_a_secret_in_the_wrong_place_is_a_problem_that_does_not_show_it(read: Read, text: str) -> None:
    loaded = read(text)
    assert loaded.problems
    assert "hunter2" not in "".join(map(str, loaded.problems))


def test_a_secret_in_a_text_is_an_error_that_names_the_alternative(read: Read) -> None:
    loaded = read("kafka: {bootstrap: 'k:1'}\nkeylog: {url: 'mysql://me@host/db?password=hunter2'}\n")
    (found,) = loaded.problems
    assert (found.key, found.place.endswith(":2"), found.warning) == ("keylog.url", True, False)
    assert "{file: PATH} or {env: NAME}" in found.hint


@pytest.mark.parametrize("name", ["spark.kubernetes.authenticate.oauthTokenFile", "token.file"])
def test_an_option_that_names_the_file_of_a_secret_is_allowed(read: Read, name: str) -> None:
    problems = read(f"kafka: {{bootstrap: 'k:1', options: {{{name}: /run/token}}}}").problems
    assert not [problem for problem in problems if "secret" in problem.reason]
    assert read(f"kafka: {{bootstrap: 'k:1', options: {{{name}s: /run/token}}}}").problems


LAKE = "sources: {{lake: {{metastore: 'thrift://a:1', topic: t, {}}}}}"


def test_the_keys_of_signatures_are_secrets_and_only_tideline_records_are_read(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEW", "n" * 32)
    monkeypatch.setenv("OLD", "o" * 32)
    signing = "signing: {key: {env: NEW}, accept: [{env: OLD}]}, relay: {enabled: false}"
    config = read(LAKE.format(signing) + "\nkafka: {bootstrap: 'k:1'}").config
    assert config is not None
    assert set(config.secrets()) == {"n" * 32, "o" * 32}
    assert config.sources["lake"].record_format() == "tideline-1"
    signatures = source_signatures("lake", config.sources["lake"])
    assert signatures == Signatures("lake", (b"n" * 32, b"o" * 32))


@pytest.mark.parametrize(
    ("settings", "key", "reason"),
    [
        ("signing: {key: {env: SHORT}}", "sources.lake.signing.key", "at least 32 characters"),
        ("signing: {key: 'the key itself'}", "sources.lake.signing.key", "never the secret itself"),
        (
            "signing: {key: {env: LONG}, accept: [{env: SHORT}]}",
            "sources.lake.signing.accept.0",
            "at least 32 characters",
        ),
        (
            "signing: {key: {env: LONG}}, format: hms, relay: {enabled: false}",
            "sources.lake",
            "has the format hms, whose records are not signed",
        ),
    ],
)
def test_signatures_that_cannot_work_are_problems(
    read: Read, monkeypatch: pytest.MonkeyPatch, settings: str, key: str, reason: str
) -> None:
    monkeypatch.setenv("SHORT", "s" * 31)
    monkeypatch.setenv("LONG", "l" * 32)
    loaded = read(LAKE.format(settings) + "\nkafka: {bootstrap: 'k:1'}")
    assert reason in problem(loaded, key).reason
    assert "sss" not in "".join(map(str, loaded.problems))


def test_a_secret_file_that_cannot_be_used_is_a_problem(read: Read, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "huge").write_bytes(b"x" * 100_000)
    for name, reason in (("absent", "cannot be read"), ("binary", "UTF-8"), ("huge", "at most")):
        loaded = read(f"kafka: {{bootstrap: 'k:1', secrets: {{sasl.password: {{file: {tmp_path}/{name}}}}}}}")
        assert reason in problem(loaded, "kafka.secrets.sasl.password").reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [1", "invalid YAML"),
        ("- a", "must be a mapping"),
        ("[" * 5000, "nested deeper"),
        ("a: " + "{a: " * 40 + "1" + "}" * 40, "nested deeper"),
        ("logs: {level: !!timestamp x}", "cannot be read"),
    ],
)
def test_hostile_yaml_is_a_problem_and_nothing_else(read: Read, text: str, reason: str) -> None:
    loaded = read(text)
    assert any(reason in found.reason for found in loaded.problems)


def test_thousands_of_unknown_settings_are_all_reported_with_their_lines(read: Read) -> None:
    unknown = 20_000
    loaded = read("logs:\n" + "".join(f"  setting_{number}: 1\n" for number in range(unknown)))
    assert len(loaded.problems) == unknown
    assert loaded.problems[-1].place.endswith(f":{unknown + 1}")


@pytest.mark.parametrize("key", ["supervisor: {heartbeat_max_s", "http: {lag_ready_s"])
@pytest.mark.parametrize("value", [".inf", ".nan"])
def test_a_number_must_be_finite(read: Read, key: str, value: str) -> None:
    (found,) = read(f"{key}: {value}}}\n").problems
    assert found.reason == "must be a finite number"


def test_the_hint_names_the_check_only_if_it_shows_more(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "absent", {})
    assert caught.value.hint == "Name a readable file with --config."


def test_aliases_that_stand_for_billions_of_values_are_refused(read: Read) -> None:
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    loaded = read("\n".join(bomb))
    assert any("at most" in found.reason for found in loaded.problems)


def test_a_file_that_is_absent_too_large_or_no_text_is_a_problem(tmp_path: Path) -> None:
    assert "cannot be read" in config_reader().read(tmp_path / "absent", {}).problems[0].reason
    (tmp_path / "latin").write_bytes(b"a: \xe4")
    assert "UTF-8" in config_reader().read(tmp_path / "latin", {}).problems[0].reason
    (tmp_path / "large").write_bytes(b"#" * (5 * 1024 * 1024))
    assert "at most" in config_reader().read(tmp_path / "large", {}).problems[0].reason


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("TIDELINE__SOURCES__LAKE__METASTORE", "thrift://user@host:1"),
        ("TIDELINE__SOURCES__LAKE__METASTORE", "thrift://host:99999"),
        ("TIDELINE__SOURCES__LAKE__READ_ROOTS", "/no/scheme"),
        ("TIDELINE__SOURCES__LAKE__READ_ROOTS", "file:/a/../b"),
        ("TIDELINE__POLICIES__SHOP__DATABASE", "a-b"),
        ("TIDELINE__POLICIES__SHOP__DATABASE", "x" * 129),
        ("TIDELINE__POLICIES__SHOP__TABLES__INCLUDE", "A*"),
        ("TIDELINE__KAFKA__BOOTSTRAP", "k"),
        ("TIDELINE__FILES__COPY_WORKERS", "many"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_at_its_variable(read: Read, key: str, value: str) -> None:
    loaded = read(GOOD, **{key: value})
    assert [found.place for found in loaded.problems] == [key]


def test_loading_raises_the_first_problem_and_counts_the_others(tmp_path: Path) -> None:
    path = tmp_path / "tideline.yaml"
    path.write_text("http: {port: -1}\nlogs: {level: loud}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert caught.value.message == "the configuration is invalid; 1 more problem"
    assert caught.value.context["key"] == "http.port"
    assert caught.value.context["place"] == f"{path}:1"
    assert "tideline config check" in caught.value.hint


def test_a_given_path_wins_over_the_default_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_file(tmp_path / "mine.yaml") == tmp_path / "mine.yaml"
    (tmp_path / "tideline.yaml").touch()
    assert find_file(None) == Path("tideline.yaml")


def test_every_setting_is_described() -> None:
    definitions = config_model().model_json_schema()["$defs"] | {"Config": config_model().model_json_schema()}
    undescribed = [
        f"{section}.{name}"
        for section, definition in definitions.items()
        for name, setting in definition.get("properties", {}).items()
        if not setting.get("description") and "$ref" not in setting
    ]
    assert undescribed == []
    assert all(definition.get("description") for definition in definitions.values())


def test_the_reference_page_is_what_the_settings_say() -> None:
    page = Path(__file__).parents[4] / "docs" / "CONFIG.md"
    assert page.read_text() == markdown(config_model()), (
        "run: tideline config schema --format markdown > docs/CONFIG.md"
    )


def test_the_example_of_the_reference_page_is_right(read: Read, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret-text")
    text = markdown(config_model()).partition("```yaml\n")[2].partition("```")[0]
    assert read(text.replace("/run/secrets/kafka-password", f"{tmp_path}/password")).problems == ()


@pytest.mark.parametrize("value", [{"a": 1}, [{"a": 1}], [["a"]], 7, True, None])
def test_a_value_of_any_other_kind_is_a_problem_and_not_a_defect(read: Read, value: object) -> None:
    """The checks between settings see the document before its values are known to be right."""
    good = yaml.safe_load(dedent(GOOD))
    keys = ("source", "target", "database", "target_database", "external_base", "metastore", "topic", "hdfs")
    for name in {*good, "policy_patterns", "flat", "mining", "http", "supervisor", "files", "state"}:
        broken = [value, {"entry": value}, *({"entry": {key: value}} for key in keys)]
        broken += [{"one": {key: value}, "two": {key: value}} for key in keys]
        broken += [{key: value} for key in ("host", "port", "bootstrap", "dir", "client", "backoff_min_s")]
        for section in broken:
            read(json.dumps({**good, name: section}))
