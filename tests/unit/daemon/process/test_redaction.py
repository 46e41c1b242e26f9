"""Secrets are known by their texts, by the names of settings and by their forms."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.process.redaction import (
    MASK,
    Redactor,
    holds_secret,
    mask_forms,
    names_secret,
    redact,
    use_secrets,
)
from state.errors import ConfigError, Refused


@pytest.fixture(autouse=True)
def no_secrets() -> Iterator[None]:
    yield
    use_secrets(())


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "S3_SECRET_KEY",
        "token",
        "Authorization",
        # librdkafka and the Java client
        "sasl.password",
        "ssl.key.password",
        "ssl.key.passphrase",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.assertion.private.key.pem",
        # PyArrow
        "secret_key",
        "session_token",
        "account_key",
        "sas_token",
        "client_secret",
        "access_token",
        # Hadoop
        "fs.s3a.secret.key",
        "fs.s3a.session.token",
        "fs.s3a.encryption.key",
        "fs.s3a.bucket.lake.server-side-encryption.key",
        "fs.azure.account.key.lake.dfs.core.windows.net",
        "fs.azure.sas.container.account",
        "fs.azure.account.oauth2.client.secret",
        "fs.gs.auth.service.account.private.key",
        "hadoop.security.group.mapping.ldap.bind.password",
        # Spark
        "spark.authenticate.secret",
        "spark.ssl.keyPassword",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.javax.jdo.option.ConnectionPassword",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "security.protocol",
        "ssl.key.location",
        "ssl.ca.pem",
        "sasl.mechanisms",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.assertion.private.key.file",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "hadoop.security.credential.provider.path",
        "fs.s3a.aws.credentials.provider",
        "google.cloud.auth.service.account.json.keyfile",
        "spark.kubernetes.authenticate.oauthTokenFile",
        "spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY",
        "spark.kubernetes.driver.secrets.lake-key",
        "spark.security.credentials.hive.enabled",
        "spark.io.encryption.keySizeBits",
        "partition",
        "key",
    ],
)
def test_names_that_refer_to_a_secret_hold_none(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        "thrift://user:HUSH@host:1",
        "mysql://user:p@HUSH@host/db",
        "https://lake.example.org/f?se=2026&sig=HUSH&sp=r",
        "https://lake.example.org/f?password=HUSH",
        "https://s3/f?X-Amz-Signature=HUSH&a=b",
        "https://s3/f?X-Amz-Security-Token=HUSH",
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="HUSH";',
        "login failed for {'user': 'u', 'password': 'HUSH'}",
        'the body was {"user": "u", "client_secret": "HUSH"}',
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=HUSH;EndpointSuffix=core",
        "Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=HUSH",
        "Authorization: Basic HUSH",
        "sent Bearer HUSHHUSHHUSHHUSHHUSH",
        "-----BEGIN PRIVATE KEY-----\nHUSH\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nHUSH",
        "unknown option fs.s3a.secret.key=HUSH",
        "sasl.password = HUSH",
    ],
)
def test_forms_of_secrets_are_masked(text: str) -> None:
    assert "HUSH" not in mask_forms(text)
    assert MASK in mask_forms(text)
    assert holds_secret(text)


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://nameservice/warehouse",
        "abfs://container@account.dfs.core.windows.net/tmp",
        "mysql://user@host/db",
        "ds >= '2024-01-30' and hr = 3",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "the token has expired",
        "event_id=5, table='shop.visits'",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert mask_forms(text) == text
    assert not holds_secret(text)


@given(st.text(min_size=4), st.text(), st.text())
def test_a_secret_does_not_survive_in_any_text(secret: str, before: str, after: str) -> None:
    cleaned = Redactor([secret]).text(before + secret + after)
    assert secret not in cleaned.replace(MASK, "") or secret in before + after or secret in MASK


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=4))
def test_a_secret_is_masked_as_libraries_print_it(secret: str) -> None:
    redactor = Redactor([secret])
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    for form in (repr(secret)[1:-1], quote(secret, safe=""), encoded):
        assert form not in redactor.text(f"< {form} >") or form in MASK


def test_a_line_of_a_key_is_masked_on_its_own() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----\n"
    assert Redactor([key]).text("read MIIEvQIBADANBgkqhkiG9w0B") == f"read {MASK}"


def test_deeply_nested_values_are_truncated_and_redacted() -> None:
    value: list[object] = ["hunter2"]
    for _ in range(100):
        value = [value]
    assert "hunter2" not in str(Redactor(["hunter2"]).clean(value))


@dataclass(frozen=True, slots=True)
class Inner:
    problem: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Outer:
    parts: tuple[Inner, ...]
    others: dict[str, Inner]
    token: str


def test_texts_within_records_are_masked_and_their_types_stay() -> None:
    record = Outer((Inner("said hunter2", 1), Inner(None, 2)), {"a": Inner("hunter2", 3)}, "a name")
    masked = Redactor(["hunter2"]).texts(record)
    assert masked == Outer((Inner(f"said {MASK}", 1), Inner(None, 2)), {"a": Inner(MASK, 3)}, "a name")
    assert masked.parts[1] is record.parts[1]


def test_errors_are_redacted_when_they_are_created() -> None:
    use_secrets(["hunter2"])
    error = Refused("no login with hunter2", reason="hunter2", tried=["hunter2", 1], place={"a": "hunter2"})
    assert "hunter2" not in f"{error} {error!r} {error.args} {error.message} {error.context}"
    assert error.context["tried"] == [MASK, 1]
    assert redact("hunter2") == MASK
    use_secrets(())
    assert "hunter2" in str(ConfigError("hunter2"))
