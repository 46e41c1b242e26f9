"""Functions and their jars on real metastores, used by the target's SQL engine."""

from __future__ import annotations

import zipfile
from pathlib import Path

from daemon.replica.status.unreplicated import list_unreplicated
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.replication.verification.findings import Outcome
from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import create_source
from tests.builders.replication.verification import FollowedReplica, verifier_of, verify


UPPER = "org.apache.hadoop.hive.ql.udf.generic.GenericUDFUpper"


def write_jar(path: Path) -> str:
    """Write a jar without classes, which a session loads like any other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return f"file:{path}"


def test_functions_are_replicated_with_their_jars_or_refused_with_the_reason(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    database: str,
    source_sql: Session,
    target_sql: Session,
) -> None:
    allowed = write_jar(Path(source.external) / database / "allowed.jar")
    elsewhere = write_jar(Path(source.external).parent / "elsewhere" / database / "other.jar")
    create_source(source_sql, database)
    source_sql.run(f"create function {database}.earlier as '{UPPER}'")
    replica = build_replica(
        source.metastore,
        target.metastore,
        db=database,
        roots=[source.warehouse, source.external, source.cmroot],
        functions_dir=f"file:{target.external}/functions",
    )
    replica.follow()
    source_sql.run(f"create function {database}.with_jar as '{UPPER}' using jar '{allowed}'")
    source_sql.run(f"create function {database}.refused as '{UPPER}' using jar '{elsewhere}'")
    source_sql.run(f"create function {database}.gone as '{UPPER}'")
    source_sql.run(f"drop function {database}.gone")
    replica.follow()
    db = replica.policy.target_db
    assert sorted(replica.target.function_names(db)) == ["earlier", "with_jar"]
    (resource,) = replica.target.get_function(db, "with_jar").resourceUris or []
    copied = Path((resource.uri or "").removeprefix("file:").replace("//", "/"))
    assert copied.is_relative_to(Path(target.external) / "functions" / db / "with_jar")
    assert copied.read_bytes() == Path(allowed.removeprefix("file:")).read_bytes()
    (status,) = list_unreplicated("p", replica.context)
    assert [(each.name, each.code) for each in status.listed] == [(f"{database}.refused()", "function")]
    assert "unsafe-path" in status.listed[0].reason
    reasons = {"refused()": status.listed[0].reason}
    with verifier_of(replica, FollowedReplica(replica, reasons=reasons)) as verifier:
        result = verifier.verify_database()
    assert (result.outcome, result.not_compared) == (Outcome.EQUAL, (("functions", 1),)), result.differences
    target_sql.run("reload functions")
    assert target_sql.rows(f"select {db}.earlier('a'), {db}.with_jar('b')") == [("A", "B")]
    source_sql.run(f"drop function {database}.refused")
    replica.follow()
    assert list_unreplicated("p", replica.context) == ()
    replica.target.drop_function(db, "earlier")
    assert [each.key for each in verify(replica)[""].differences] == ["earlier"]
    replica.projection.close()
