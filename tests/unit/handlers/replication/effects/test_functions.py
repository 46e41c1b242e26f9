"""Functions: their definitions and jars are replicated, and one that cannot be replicated is reported and
stops nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.replica.status.unreplicated import list_unreplicated
from handlers.decoding.header import EventHeader
from handlers.decoding.messages import DEFAULT_LIMITS
from handlers.decoding.notifications import build_event
from handlers.events import Event, FunctionCreated, FunctionDropped, Undecodable
from handlers.replication.context import Context
from handlers.replication.effects import functions
from handlers.structs import tjson
from handlers.structs.objects import Function, ResourceType, ResourceUri
from state.errors import AlreadyExists, NotFound, ServerFault
from tests.builders.replication.fake_target import FakedReplica, a_dispatcher, faked_replica
from tests.builders.replication.recording_metastore import RecordingMetastore


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[FakedReplica]:
    made = faked_replica(tmp_path, functions_dir=f"file:{tmp_path}/functions/")
    yield made
    made.projection.close()


def a_function(*uris: str, class_name: str = "com.shop.Upper") -> Function:
    return Function(
        functionName="Upper_It",
        dbName="shop",
        className=class_name,
        createTime=7,
        functionType=1,
        resourceUris=[ResourceUri(resourceType=ResourceType.JAR, uri=uri) for uri in uris],
        catName="hive",
    )


def decode(kind: str, message: dict[str, Any]) -> Event:
    header = EventHeader(5, 0, 1, time_s=0, kind=kind, db="shop", table=None)
    return build_event(header, message, DEFAULT_LIMITS)


def creation(function: Function) -> FunctionCreated:
    event = decode("CREATE_FUNCTION", {"db": "shop", "functionObjJson": tjson.encode(function)})
    assert isinstance(event, FunctionCreated)
    return event


def drop() -> FunctionDropped:
    event = decode("DROP_FUNCTION", {"db": "shop", "functionName": "Upper_It"})
    assert isinstance(event, FunctionDropped)
    return event


def on(replica: FakedReplica, target: RecordingMetastore, **policy: Any) -> Context:
    metastore: Any = target
    context = replica.context
    return replace(context, target=metastore, source=metastore, policy=replace(context.policy, **policy))


def reasons(context: Context) -> dict[str, str]:
    return {each.name: each.reason for status in list_unreplicated("shop", context) for each in status.listed}


def test_a_function_is_created_with_its_jar_below_the_directory_of_the_policy(
    replica: FakedReplica, tmp_path: Path
) -> None:
    jar = tmp_path / "source" / "lib" / "shop.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"classes")
    target = RecordingMetastore()
    context = on(replica, target)
    assert a_dispatcher(context).apply(creation(a_function(f"file:{jar}", "ivy://org:lib:1"))) is None
    (made,) = target.only("create_function").arguments
    copied = tmp_path / "functions" / "shop_r" / "upper_it" / "7" / "shop.jar"
    assert copied.read_bytes() == b"classes"
    assert (made.dbName, made.catName) == ("shop_r", None)
    assert [each.uri.removeprefix("file:").replace("//", "") for each in made.resourceUris] == [
        str(copied),
        "ivy:org:lib:1",
    ]
    assert reasons(context) == {}


@pytest.mark.parametrize(
    ("uri", "settings", "reason"),
    [
        ("file:/source/a.jar", {"functions_dir": None}, "no directory for them"),
        ("file:/elsewhere/a.jar", {}, "unsafe-path"),
        ("file:{source}/missing.jar", {}, "file-lost"),
    ],
)
def test_a_function_whose_jar_cannot_be_copied_is_left_out_and_reported(
    replica: FakedReplica, tmp_path: Path, uri: str, settings: dict[str, Any], reason: str
) -> None:
    target = RecordingMetastore()
    context = on(replica, target, **settings)
    (tmp_path / "source").mkdir(exist_ok=True)
    (tmp_path / "source" / "other.jar").touch()  # so that the source counts as mounted
    event = creation(a_function(uri.format(source=tmp_path / "source")))
    assert a_dispatcher(context).apply(event) is None
    assert target.names() == []
    (found,) = reasons(context).values()
    assert reason in found
    assert list(reasons(context)) == ["shop.upper_it()"]
    a_dispatcher(context).apply(drop())
    assert reasons(context) == {}


def test_a_repeated_creation_changes_nothing_and_another_function_of_the_name_is_replaced(
    replica: FakedReplica,
) -> None:
    target = RecordingMetastore({"create_function": AlreadyExists("there is one")})
    target.answers["get_function"] = a_function()
    functions.put(a_function(), 5, on(replica, target))
    assert target.names() == ["create_function", "get_function"]
    target.calls.clear()
    functions.put(a_function(class_name="com.shop.Other"), 5, on(replica, target))
    assert target.names() == ["create_function", "get_function", "drop_function", "create_function"]


def test_a_dropped_function_is_dropped_and_one_that_is_gone_is_skipped(replica: FakedReplica) -> None:
    target = RecordingMetastore({"drop_function": NotFound("gone")})
    assert a_dispatcher(on(replica, target)).apply(drop()) is None
    assert target.only("drop_function").arguments == ("shop_r", "upper_it")


def test_a_function_that_the_target_fails_at_is_given_up_and_reported(replica: FakedReplica) -> None:
    context = on(replica, RecordingMetastore())
    a_dispatcher(context).give_up(creation(a_function()), ServerFault("internal error"))
    assert list(reasons(context)) == ["shop.upper_it()"]


def test_functions_of_other_databases_and_unreadable_ones_have_no_effect(replica: FakedReplica) -> None:
    target = RecordingMetastore()
    dispatcher = a_dispatcher(on(replica, target))
    assert dispatcher.apply(replace(creation(a_function()), db="hr")) == "out-of-scope"
    torn = decode("CREATE_FUNCTION", {"db": "shop"})
    assert isinstance(torn, Undecodable)
    assert dispatcher.apply(torn) == "nothing-to-do"
    assert target.names() == []


def test_functions_of_before_the_first_event_are_created_once(tmp_path: Path) -> None:
    made = faked_replica(tmp_path)
    try:
        assert made.store.get(functions.LOADED_KEY) == b"1"
        source: Any = RecordingMetastore(
            {"function_names": ["upper_it"], "get_function": lambda *_: a_function()}
        )
        target: Any = RecordingMetastore()
        functions.load(3, replace(made.context, source=source, target=target))
        assert target.names() == ["create_function"]
    finally:
        made.projection.close()
