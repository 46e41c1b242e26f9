"""Verification reads no file that replication may not read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.replication.policy.policy import Policy
from handlers.replication.verification.reading import OneTable, Side
from handlers.structs.objects import StorageDescriptor, Table
from state.errors import UnsafePath


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., OneTable]:
    """Return a plain table of the source, whose files may be read below ``warehouse``."""
    (tmp_path / "warehouse" / "t").mkdir(parents=True)
    (tmp_path / "warehouse" / "t" / "f").write_text("rows")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (tmp_path / "warehouse" / "link").symlink_to(tmp_path / "outside")
    allowed = AllowedRoots.of([f"file:{tmp_path}/warehouse"])

    def build(location: str) -> OneTable:
        side = Side(
            cast("Any", None),
            "shop",
            open_file_systems(trusted=allowed.roots),
            ThreadPoolExecutor(1),
            Policy("p", "shop", "shop_r"),
            at_source=True,
            allowed=allowed,
            checksums=True,
        )
        return OneTable(
            side, Table(tableName="t", dbName="shop", sd=StorageDescriptor(location=location)), None
        )

    return build


def test_files_below_the_roots_are_listed(table: Callable[..., OneTable], tmp_path: Path) -> None:
    files, _ = table(f"file:{tmp_path}/warehouse/t").list_files(f"file:{tmp_path}/warehouse/t")
    assert list(files) == ["f"]


@pytest.mark.parametrize("place", ["outside", "warehouse/link"])
def test_no_file_outside_of_the_roots_is_listed(
    table: Callable[..., OneTable], tmp_path: Path, place: str
) -> None:
    with pytest.raises(UnsafePath):
        table(f"file:{tmp_path}/{place}").list_files(f"file:{tmp_path}/{place}")
