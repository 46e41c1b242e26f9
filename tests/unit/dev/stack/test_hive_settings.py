from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.stack.hive.java_build import read_hive_lock
from dev.stack.hive.settings import (
    ClusterSettings,
    Database,
    Layout,
    build_engine_properties,
    build_metastore_properties,
    render,
)


LAYOUT = Layout(Path("/data/source"))
XML_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
)


def metastore(settings: ClusterSettings | None = None, database: Database | None = None) -> dict[str, str]:
    derby = Database.derby(LAYOUT.root / "db")
    return build_metastore_properties(
        LAYOUT, "127.0.0.1", 9083, database or derby, settings or ClusterSettings()
    )


def engine(settings: ClusterSettings | None = None) -> dict[str, str]:
    return build_engine_properties(LAYOUT, "thrift://127.0.0.1:9083", settings or ClusterSettings())


@given(st.dictionaries(XML_TEXT.filter(bool), XML_TEXT, max_size=5))
def test_rendered_properties_are_read_back(properties: dict[str, str]) -> None:
    root = ET.fromstring(render(properties))  # noqa: S314 (made two words ago)
    read = {p.findtext("name"): p.findtext("value") for p in root.iter("property")}
    assert read == properties


def test_the_metastore_is_not_configured_as_a_client_of_itself() -> None:
    assert "hive.metastore.uris" not in metastore()
    assert engine()["hive.metastore.uris"] == "thrift://127.0.0.1:9083"


def test_both_processes_agree_on_what_they_share() -> None:
    ours, theirs = metastore(), engine()
    assert all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())


def test_readonly_transactions_keep_hives_default_unless_set() -> None:
    name = "hive.txn.readonly.enabled"
    assert name not in engine()
    assert engine(ClusterSettings(readonly_txns=True))[name] == "true"


def test_extra_settings_override_in_both_processes() -> None:
    extra = {"metastore.event.db.listener.timetolive": "1s", "hive.metastore.dml.events": "false"}
    for properties in (metastore(ClusterSettings(extra=extra)), engine(ClusterSettings(extra=extra))):
        assert extra.items() <= properties.items()


def test_the_compactor_runs_only_if_configured() -> None:
    for wanted, on in ((False, "false"), (True, "true")):
        settings = ClusterSettings(compactor=wanted)
        assert metastore(settings)["metastore.compactor.initiator.on"] == on
        assert engine(settings)["tideline.stack.compaction.worker"] == on


def test_postgresql_replaces_derby() -> None:
    properties = metastore(
        database=Database.postgres("jdbc:postgresql://127.0.0.1:5432/hms", "hive", "secret")
    )
    assert properties["javax.jdo.option.ConnectionDriverName"] == "org.postgresql.Driver"
    assert properties["javax.jdo.option.ConnectionURL"].endswith("/hms")


@pytest.mark.parametrize(
    ("hive", "own"),
    [
        ("4.1", ["hive-exec:4.1.0"]),
        (
            "4.0",
            [
                "hive-exec:4.0.1",
                "datanucleus-api-jdo:5.2.8",
                "datanucleus-core:5.2.10",
                "datanucleus-rdbms:5.2.10",
            ],
        ),
    ],
)
def test_an_older_hive_replaces_jars_of_the_newest_by_its_own(hive: str, own: list[str]) -> None:
    newest, older = read_hive_lock("4.2"), read_hive_lock(hive)
    changed = [one.coordinates for one, other in zip(older, newest, strict=True) if one != other]
    assert [each.partition(":")[2] for each in changed] == own


def test_a_metastore_of_hive_4_0_has_a_listener_of_its_own() -> None:
    older, newer = (metastore(ClusterSettings(hive=hive)) for hive in ("4.0", "4.1"))
    assert older["metastore.transactional.event.listeners"].startswith("tideline.stack.")
    assert newer["metastore.transactional.event.listeners"].startswith("org.apache.hive.")


def test_drops_of_the_newest_hive_on_derby_take_turns_before_they_are_logged() -> None:
    first, second = metastore()["metastore.transactional.event.listeners"].split(",")
    assert first == "tideline.stack.DropsInTurn$Before"
    assert second.startswith("org.apache.hive.")


def test_compactions_of_hive_3_run_in_the_metastore_with_the_directories_of_a_sql_client() -> None:
    older, newest = (metastore(ClusterSettings(compactor=True, hive=hive)) for hive in ("3.1", "4.2"))
    assert (older["metastore.compactor.worker.threads"], newest["metastore.compactor.worker.threads"]) == (
        "1",
        "0",
    )
    assert older["hive.exec.scratchdir"] == engine()["hive.exec.scratchdir"]
    assert "hive.exec.scratchdir" not in newest


def test_hive_3_has_a_lock_of_its_own_with_the_script_of_its_schema() -> None:
    named = [jar.coordinates for jar in read_hive_lock("3.1")]
    assert "org.apache.hive:hive-exec:3.1.3" in named
    assert [each for each in named if "@" in each] == [
        "org.apache.hive:hive-standalone-metastore:3.1.3:bin@tar.gz"
    ]
    assert not any(":4." in each and "hive" in each for each in named)
