from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dev.stack.servers.hdfs import render_site
from state.errors import ConfigError, Transient
from streaming.driver import masters, session
from streaming.settings import SparkSettings


MANAGER = "yarn.resourcemanager"


def yarn_of(directory: Path, **settings: str) -> dict[str, str]:
    """Return the environment of a daemon whose configuration has these settings of YARN."""
    named = {f"yarn.{name.replace('_', '.')}": value for name, value in settings.items()}
    (directory / "yarn-site.xml").write_text(render_site(named))
    return {"HADOOP_CONF_DIR": str(directory)}


def test_a_driver_on_yarn_without_hadoops_configuration_ends_with_the_variable_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in masters.CONF_DIRS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError) as caught:
        session.start(SparkSettings("yarn"))
    assert "HADOOP_CONF_DIR" in caught.value.hint


def test_a_configuration_that_names_no_resource_manager_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ResourceManager") as caught:
        masters.require_configuration("yarn", yarn_of(tmp_path))
    assert caught.value.context["directories"] == [str(tmp_path)]
    masters.require_configuration("yarn", yarn_of(tmp_path, resourcemanager_hostname="rm"))


@pytest.mark.parametrize("master", ["local[2]", "spark://h:7077", "k8s://h"])
def test_other_masters_need_no_configuration_of_hadoop(master: str) -> None:
    masters.require_configuration(master, {})


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("local[2]", []),
        ("spark://a:7077", [("a", 7077)]),
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("k8s://https://kubernetes.default.svc", [("kubernetes.default.svc", 443)]),
        ("k8s://http://127.0.0.1:8001", [("127.0.0.1", 8001)]),
        ("k8s://h:6443", [("h", 6443)]),
    ],
)
def test_the_addresses_of_a_cluster_follow_from_its_master(
    master: str, addresses: list[tuple[str, int]]
) -> None:
    assert masters.find_addresses(master, {}) == addresses


def test_an_api_server_behind_a_proxy_has_no_address_to_check() -> None:
    assert masters.find_addresses("k8s://h:6443", {"https_proxy": "http://proxy:3128"}) == []


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({"hostname": "rm"}, [("rm", 8032)]),
        ({"hostname": "rm", "address": "rm:9"}, [("rm", 9)]),
        ({"hostname": "rm", "address": "${yarn.resourcemanager.hostname}:8050"}, [("rm", 8050)]),
        ({"address": "${unknown}"}, []),
        (
            {
                "ha.enabled": "true",
                "ha.rm-ids": "a, b",
                "address.a": "rm1:8032",
                "hostname.b": "rm2",
                "hostname": "other",
            },
            [("rm1", 8032), ("rm2", 8032)],
        ),
    ],
)
def test_resource_managers_are_read_from_hadoops_configuration(
    tmp_path: Path, settings: dict[str, str], addresses: list[tuple[str, int]]
) -> None:
    named = {f"{MANAGER}.{name}": value for name, value in settings.items()}
    (tmp_path / "yarn-site.xml").write_text(render_site(named))
    assert masters.find_addresses("yarn", {"HADOOP_CONF_DIR": str(tmp_path)}) == addresses
    assert masters.find_addresses("yarn", {"YARN_CONF_DIR": str(tmp_path)}) == addresses


def test_a_cluster_is_reachable_if_one_of_its_addresses_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        port, closed = server.getsockname()[1], other.getsockname()[1]
        other.close()
        masters.require_reachable(f"spark://127.0.0.1:{closed},127.0.0.1:{port}", {})
        with pytest.raises(Transient, match="cannot be reached") as caught:
            masters.require_reachable(f"spark://127.0.0.1:{closed}", {})
    assert str(closed) in str(caught.value.context["reason"])
    masters.require_reachable("local[2]", {})


def test_a_driver_in_one_process_listens_to_nobody_else() -> None:
    assert masters.make_reachable(SparkSettings("local[4]")).conf == {}


@pytest.mark.parametrize("master", ["yarn", "k8s://https://kubernetes.default.svc"])
def test_executors_elsewhere_authenticate_and_encrypt_and_find_known_ports(master: str) -> None:
    conf = masters.make_reachable(SparkSettings(master)).conf
    assert masters.AUTHENTICATED.items() <= conf.items()
    assert {conf["spark.driver.port"], conf["spark.driver.blockManager.port"]} == {"7100", "7200"}
    assert int(conf["spark.port.maxRetries"]) == masters.PORTS - 1


def test_a_standalone_cluster_has_the_secret_that_its_administrator_gave_it() -> None:
    conf = masters.make_reachable(SparkSettings("spark://a:7077")).conf
    assert masters.AUTHENTICATED.keys().isdisjoint(conf)
    assert conf["spark.driver.port"] == "7100"


def test_what_the_user_says_of_authentication_and_ports_wins() -> None:
    said = {"spark.network.crypto.enabled": "false", "spark.driver.port": "9000"}
    assert said.items() <= masters.make_reachable(SparkSettings("yarn", conf=said)).conf.items()


@pytest.mark.parametrize(("namespace", "owned"), [(None, True), ("prod", True), ("executors", False)])
def test_a_pod_owns_the_executors_of_its_own_namespace_only(
    namespace: str | None, *, owned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes removes at once what is owned from another namespace."""
    (tmp_path / "namespace").write_text("prod\n")
    monkeypatch.setattr(masters, "NAMESPACE_FILE", tmp_path / "namespace")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    given = {} if namespace is None else {"spark.kubernetes.namespace": namespace}
    conf = masters.make_reachable(SparkSettings("k8s://https://api", conf=given)).conf
    assert conf["spark.kubernetes.namespace"] == (namespace or "prod")
    assert ("spark.kubernetes.driver.pod.name" in conf) is owned
