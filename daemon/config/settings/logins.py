"""Settings of logins at metastores that require SASL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from daemon.config.fields import Secret
from daemon.config.section import Section, refused
from daemon.config.values import setting
from handlers.metastore.login.logins import KerberosLogin, PasswordLogin, Protection


if TYPE_CHECKING:
    from handlers.metastore.login.logins import Login


_SERVICE: Final = re.compile(r"[^/@\s]+/[^/@\s]+@[^/@\s]+")
_CLIENT: Final = re.compile(r"[^@\s]+@[^/@\s]+")


def _check_service(text: str) -> str:
    if not _SERVICE.fullmatch(text):
        raise refused("must be a principal with a host and a realm, such as hive/_HOST@EXAMPLE.COM")
    return text


def _check_client(text: str) -> str:
    if not _CLIENT.fullmatch(text):
        raise refused("must be a principal with a realm, such as tideline@EXAMPLE.COM")
    return text


class AuthConfig(Section):
    """The login at a metastore that requires SASL."""

    mechanism: Literal["kerberos", "plain"] = Field(
        description="'kerberos' (GSSAPI) or 'plain' (user and password; use an address with thrift+tls://)."
    )
    principal: Annotated[str, AfterValidator(_check_service)] | None = Field(
        default=None,
        description="Principal of the metastore, as in its hive.metastore.kerberos.principal; _HOST stands for the host of the "
        "address. Required for 'kerberos'.",
    )
    client_principal: Annotated[str, AfterValidator(_check_client)] | None = Field(
        default=None,
        description="Principal that Tideline logs in as; default: the first one of the keytab. Only for 'kerberos'.",
    )
    keytab: Path | None = Field(
        default=None,
        description="Keytab of client_principal, from which Tideline obtains and renews its tickets. Default: the ticket cache of the "
        "process (kinit, KRB5CCNAME). Only for 'kerberos'.",
    )
    protection: Protection = setting(KerberosLogin, "protection")
    user: str | None = Field(default=None, description="User of the metastore. Required for 'plain'.")
    password: Secret | None = Field(
        default=None, description="Password, as {file: PATH} or {env: NAME}. Required for 'plain'."
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        needed = ("principal",) if self.mechanism == "kerberos" else ("user", "password")
        if missing := [name for name in needed if getattr(self, name) is None]:
            raise refused(f"has the mechanism {self.mechanism} but no {' and no '.join(missing)}")
        of_others = (
            {"user", "password"}
            if self.mechanism == "kerberos"
            else {"principal", "client_principal", "keytab", "protection"}
        )
        if surplus := sorted(of_others & self.model_fields_set):
            raise refused(
                f"has settings that the mechanism {self.mechanism} does not use: {', '.join(surplus)}"
            )
        return self

    def login(self) -> Login:
        """Return the client's form."""
        if self.mechanism == "plain":
            assert self.user is not None, "checked by the section"
            assert self.password is not None, "checked by the section"
            return PasswordLogin(self.user, self.password.get_secret_value())
        assert self.principal is not None, "checked by the section"
        return KerberosLogin(self.principal, self.client_principal, self.keytab, self.protection)
