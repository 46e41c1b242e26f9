"""A policy in trouble changes nothing for the others of its daemon."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from daemon.config.fields import BYTES_PER_S_MIN
from daemon.status.model import DaemonStatus, ProjectionView
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.components.mounts import mounted
from tests.builders.daemon.running_daemon import configured
from tests.builders.replication.small_workload import ACID, create_source


FILES = 600


def _view(status: DaemonStatus, policy: str) -> ProjectionView:
    (found,) = (each for each in status.projections if each.name == f"replication:{policy}")
    return found


def _is_caught_up(status: DaemonStatus, policy: str) -> bool:
    view = _view(status, policy)
    return (view.state, view.lag_events) == ("following", 0)


@pytest.mark.long
def test_a_policy_progresses_while_others_have_no_target_a_full_disk_or_a_large_load(
    stack: Endpoints, source_sql: Session, target_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    values = yaml.safe_load(daemon.config.read_text())
    values["targets"]["gone"] = {"metastore": ["thrift://127.0.0.1:1"]}
    common = {"source": "lake", "target": "dr", "bootstrap": "auto"}
    settings: dict[str, dict[str, object]] = {
        "good": {},
        "full": {},
        "large": {"bytes_per_s_max": BYTES_PER_S_MIN},
        "gone": {"target": "gone"},
    }
    values["policies"] = {
        name: {**common, **own, "database": f"{database}_{name}", "target_database": f"{database}_{name}_r"}
        for name, own in settings.items()
    }
    daemon.config.write_text(yaml.safe_dump(values))
    for name in settings:
        create_source(source_sql, f"{database}_{name}")
        source_sql.run(f"create table {database}_{name}.t (id int) {ACID}")
        source_sql.run(f"insert into {database}_{name}.t values (0)")
    warehouse = Path(urlsplit(stack.source.warehouse).path)
    (written,) = warehouse.glob(f"{database}_large.db/t/delta_*/bucket_*")
    for number in range(1, FILES):
        written.with_name(f"bucket_{number:05d}").write_bytes(bytes(BYTES_PER_S_MIN))
    with mounted(tmp_path / "small", tmp_path / "backing", size_mb=1) as disk:
        daemon.state_dir.mkdir(mode=0o700)
        (daemon.state_dir / "replication-full.db").symlink_to(tmp_path / "small" / "full.db")
        with daemon:
            daemon.status_when(lambda s: all(_is_caught_up(s, policy) for policy in ("good", "full")))
            disk.fill()
            numbers = iter(range(1, 100))

            def is_in_trouble(status: DaemonStatus) -> bool:
                source_sql.run(f"insert into {database}_full.t values ({next(numbers)})")
                return _view(status, "full").code is not None

            daemon.status_when(is_in_trouble)
            for number in range(1, 4):
                source_sql.run(f"insert into {database}_good.t values ({number})")
                status = daemon.status_when(lambda s: _is_caught_up(s, "good"))
                assert not _is_caught_up(status, "full")
                assert not _is_caught_up(status, "gone")
                assert _view(status, "large").state == "starting", "its table is being loaded"
            assert target_sql.rows(f"select count(*) from {database}_good_r.t") == [("4",)]
            disk.free()
            daemon.status_when(lambda s: _is_caught_up(s, "full"))
            assert daemon.command("verify", "full").returncode == 0
