"""Settings of metastores that check the rights of their users."""

from __future__ import annotations

from typing import Final


_SECURITY: Final = "org.apache.hadoop.hive.ql.security"
BY_PERMISSIONS_OF_FILES: Final = {
    "hive.metastore.pre.event.listeners": f"{_SECURITY}.authorization.AuthorizationPreEventListener",
    "hive.security.metastore.authorization.manager": (
        f"{_SECURITY}.authorization.StorageBasedAuthorizationProvider"
    ),
    "hive.security.metastore.authenticator.manager": f"{_SECURITY}.HadoopDefaultMetastoreAuthenticator",
}
"""A user may read and write a table as the permissions of its directory say."""
