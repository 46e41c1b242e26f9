"""Describes the configuration as docs/CONFIG.md."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Final

from pydantic_core import PydanticUndefined

from daemon.config.quantities import quantity_text
from daemon.config.section import section_of


if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from daemon.config.model import Config


_UNITS: Final = {"_s": "seconds", "_bytes": "bytes", "_bytes_max": "bytes", "_events": "events"}

_INTRODUCTION: Final = """\
# Configuration

One YAML file, given with `--config`, in `TIDELINE_CONFIG`, as `./tideline.yaml` or as
`/etc/tideline/tideline.yaml`. Every key can be overridden by an environment variable: `TIDELINE__`, then the
path in upper case with `__` between its steps, such as
`TIDELINE__SOURCES__LAKE__METASTORE=thrift://a:9083,thrift://b:9083`. Lists are separated by commas or written
as YAML (`[a, b]`).

Unknown keys, repeated keys and values out of range are errors. `tideline config check` prints every problem
at once with file and line; with `--live` it also checks the metastores and the broker. `tideline config show`
prints the settings in effect. A file that configures nothing to run is an error.

Sizes and durations are numbers in the unit of the setting, or texts: `512MiB`, `10GB`, `7d`, `1h30m`,
`500ms`. The units of sizes are B, KiB, MiB, GiB and TiB, or powers of 1000: KB, MB, GB and TB. Those of times
are d, h, m, s and ms. `tideline config show` prints them in the same form; its JSON has the numbers.

Secrets are never written in the file: it contains `{file: PATH}` or `{env: NAME}`, and the daemon reads
the content at start. A secret in the file is an error, even within another text: a password in an
address, a signature in a query, a JAAS text, a private key. `tideline config show` masks secrets, and
those texts in `options` and `conf` whose names it does not know as harmless.

This page is written by `tideline config schema --format markdown`; a test compares the two. NAME is a
name of your choice: lower-case letters, digits, `-` and `_`, beginning with a letter.

## Example

```yaml
sources:
  lake:
    metastore: ["thrift://source-hms:9083"]
    topic: tideline.lake
    read_roots: ["hdfs://source/warehouse", "hdfs://source/cmroot"]
targets:
  dr:
    metastore: ["thrift://target-hms:9083"]
policies:
  shop:
    source: lake
    target: dr
    database: shop
    target_database: shop_r
    tables: {include: ["*"], exclude: ["tmp_*"]}
catalog:
  lake:
    rules:
      events: {tables: ["logs.*"], columns: [dt]}
facts:
  sales:
    source: lake
    tables: {shop.sales_daily: {}, shop.sales_hourly: {start: "2024-01"}}
flat:
  web:
    table: web.events_flat
    raw_table: web.events
    cluster: dr
    location: "hdfs://target/web/events_flat"
    source: {kind: kafka, topic: web.events}
    event_time: {key: $.epoch}
    spark: {master: "local[4]", driver_memory: 4g}
kafka:
  bootstrap: "kafka-1:9092,kafka-2:9092"
  options: {security.protocol: sasl_ssl, sasl.mechanism: SCRAM-SHA-512, sasl.username: tideline}
  secrets: {sasl.password: {file: /run/secrets/kafka-password}}
state:
  dir: /var/lib/tideline
```

## Metastores that require SASL

Sources and targets have the setting `auth`. Every connection of Tideline to one of their addresses then logs
in: relay, replica, catalog, flat tables, commands, and the endpoint's own queries.

```yaml
sources:
  lake:
    metastore: ["thrift://hms-1.example.com:9083", "thrift://hms-2.example.com:9083"]
    auth:
      mechanism: kerberos
      principal: hive/_HOST@EXAMPLE.COM
      client_principal: tideline@EXAMPLE.COM
      keytab: /etc/security/tideline.keytab
    topic: tideline.lake
targets:
  dr:
    metastore: ["thrift+tls://target-hms:9083"]
    auth: {mechanism: plain, user: tideline, password: {file: /run/secrets/metastore-password}}
```

- **Kerberos** needs the system library `libgssapi_krb5` (Debian: `libgssapi-krb5-2`; RHEL: `krb5-libs`) and
  `/etc/krb5.conf` or the file that `KRB5_CONFIG` names. With a keytab, tickets are in memory. A new
  connection obtains a new ticket if the current one is missing, expired or past half of its life. Open
  connections need no valid ticket.
- **Host names** are not resolved again: `_HOST` is the host of the address in lower case. Write addresses
  with the names in the principals.
- **Signed and encrypted calls** (`hadoop.rpc.protection` of the metastore: `integrity`, `privacy`) are
  supported.
- **Passwords** (`metastore.authentication` of Hive 4: `LDAP`, `CONFIG`, `PAM`, `CUSTOM`) are sent in
  plain text. Use `thrift+tls://`.
- **Delegation tokens** are not used by Tideline itself, because they expire after some days. Use a keytab.
  Clients of the endpoint may use them.
- **The user** is the one that logs in. Tideline neither calls `set_ugi` nor acts for other users, so this
  user needs the rights that replication needs. It must be a proxy user of the metastore if
  `hive.metastore.event.db.notification.api.auth` is true.
- **Failures** have the error code `login-failed` and a hint with the cause, also in
  `tideline config check --live`. They are retried, and never quarantine a table. One call makes one attempt,
  because servers lock accounts. The daemon continues without a restart once the cause is gone:
  `make kerberos` tests a KDC that is down, a keytab that is missing or old, clocks that differ, and a locked
  principal.
"""


def markdown(config: type[Config]) -> str:
    """Return the text of docs/CONFIG.md for the class of the configuration."""
    sections = [_INTRODUCTION.rstrip(), *(_section(name, model) for name, model in _sections(config, ""))]
    return "\n\n".join(sections) + "\n"


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in model.model_fields.items():
        inner, named = section_of(field.annotation, field.metadata)
        if inner is not None:
            below = f"{path}{name}.NAME" if named else f"{path}{name}"
            yield below, inner
            yield from _sections(inner, f"{below}.")


def _section(path: str, model: type[BaseModel]) -> str:
    rows = [
        f"| `{name}` | {_default(name, field)} | {_text(name, field)} |"
        for name, field in model.model_fields.items()
        if section_of(field.annotation, field.metadata)[0] is None
    ]
    text = fill(" ".join((model.__doc__ or "").split()), 110, break_long_words=False, break_on_hyphens=False)
    head = f"## `{path}`\n\n{text}"
    return "\n".join([f"{head}\n", "| key | default | meaning |", "|---|---|---|", *rows]) if rows else head


def _default(name: str, field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "*required*"
    if field.default is None:
        return "-"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    if isinstance(field.default, list):
        return f"`[{', '.join(field.default)}]`"
    return f"`{quantity_text(name, field.default)}`"


def _text(name: str, field: FieldInfo) -> str:
    text = field.description or ""
    unit = next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), None)
    limits = [part for part in (unit, _limits(field)) if part]
    return f"{text} ({', '.join(limits)})".replace("|", "\\|") if limits else text.replace("|", "\\|")


def _limits(field: FieldInfo) -> str:
    bounds = {
        symbol: getattr(limit, name)
        for limit in field.metadata
        for name, symbol in (("ge", "from"), ("gt", "above"), ("le", "to"))
        if getattr(limit, name, None) is not None
    }
    return " ".join(f"{symbol} {value:,}" for symbol, value in bounds.items())
