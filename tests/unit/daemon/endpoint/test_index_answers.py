"""The partition calls answered from an index in memory, and the reasons for which a call is forwarded."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.endpoint.answers.answer_cache import AnswerCache, TableContent
from daemon.endpoint.answers.index_answers import IndexAnswers
from daemon.endpoint.answers.partition_calls import CALLS
from daemon.endpoint.answers.server_rules import ServerRules
from daemon.endpoint.answers.table_access import Reason
from daemon.endpoint.protocol.wire import Message
from daemon.endpoint.verification.differing_tables import DifferingTables
from daemon.endpoint.verification.verifier import Outcome, Sample, Verifier
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.index.partition_bytes import without_write_id
from handlers.catalog.index.payloads import normalize
from handlers.structs.objects import FieldSchema
from state.partitions.filters.dialect import HIVE_4
from state.partitions.filters.hive_expressions import Expression
from tests.builders.catalog.indexed_source import Indexed
from tests.builders.endpoint.memory_tables import MemoryTables
from tests.builders.endpoint.partition_requests import positional, read_answer, request
from tests.builders.endpoint.scripted_metastore import AnswersAlways, Outcomes, SettingsOnly
from tests.builders.partitions.hive_expressions import call, column, constant


ROWS = [
    ("2020-01-01", "5"),
    ("2020-01-01", "10"),
    ("2020-01-02", "5"),
    ("a b", "7"),
    ("us_east", "__HIVE_DEFAULT_PARTITION__"),
]
FIVES = ["dt=2020-01-01/hr=5", "dt=2020-01-02/hr=5"]
ALL = ["dt=2020-01-01/hr=10", *FIVES, "dt=a b/hr=7", "dt=us_east/hr=__HIVE_DEFAULT_PARTITION__"]


class Endpoint:
    """The responder of one connection, on an index that follows a source in memory."""

    def __init__(self, *rows: tuple[str, str], metastore: SettingsOnly | None = None) -> None:
        self.source = MemorySource()
        self.source.create("t", columns=("dt", "hr"))
        self.source.tables["t"].partitionKeys = [
            FieldSchema(name="dt", type="string"),
            FieldSchema(name="hr", type="int"),
        ]
        self.source.alter("t", "t", {})
        for row in rows or ROWS:
            self.source.add("t", *row)
        self.indexed = Indexed(self.source)
        self.indexed.follow()
        self.tables = MemoryTables(self.indexed.follower)
        self.outcomes = Outcomes()
        self.metastore = metastore or SettingsOnly()
        self.expressions: dict[bytes, Expression] = {}
        self.cache = AnswerCache()
        self.responder = IndexAnswers(self.tables, self.outcomes, self.expressions.get, self.cache)

    def ask(self, message: Message) -> Any:
        """Return the answer; None for a call that is forwarded."""
        answer = self.responder.respond(message, self.metastore)
        return None if answer is None else read_answer(answer)

    def ask_again(self, message: Message) -> Any:
        """Return the answer, made without those that are kept."""
        responder = IndexAnswers(self.tables, Outcomes(), self.expressions.get)
        answer = responder.respond(message, self.metastore)
        return None if answer is None else read_answer(answer)

    def partitions(self, names: list[str]) -> list[Any]:
        """Return what the source has under these names."""
        held = self.source.partitions["t"]
        by_name = dict(zip(sorted(ALL), sorted(held, key=lambda row: ALL.index(_name(row))), strict=True))
        return [normalize(held[by_name[name]]) for name in names]


def _name(row: tuple[str, ...]) -> str:
    return f"dt={row[0]}/hr={row[1]}"


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


LISTS = [
    (positional("get_partitions_by_filter", DB, "t", "hr = 5", -1), FIVES),
    (positional("get_partitions_by_filter", DB, "T", "HR = 5", 1), FIVES[:1]),
    (positional("get_partitions_by_filter", f"@hive#{DB}", "t", None, -1), ALL),
    (request("get_partitions_by_filter_req", {1: "hive", 2: DB, 3: "t", 4: "dt like '2020%'"}), ALL[:3]),
    (
        positional("get_partitions_by_names", DB, "t", [FIVES[1], "dt=x/hr=1", ALL[3], FIVES[1]]),
        [FIVES[1], ALL[3]],
    ),
    (
        request("get_partitions_by_names_req", {1: DB, 2: "t", 3: FIVES, 4: False, 8: "db.t:5:9::", 12: ""}),
        FIVES,
    ),
    (positional("get_partitions_ps", DB, "t", ["", "5"], -1), FIVES),
    (positional("get_partitions_ps", DB, "t", ["a b", ""], -1), [ALL[3]]),
    (positional("get_partitions_ps_with_auth", DB, "t", ["2020-01-01", ""], -1, "user", ["group"]), ALL[:2]),
    (request("get_partitions_ps_with_auth_req", {2: DB, 3: "t", 5: 2}), ALL[:2]),
    (request("get_partitions_ps_with_auth_req", {2: DB, 3: "t", 4: ["", "5"], 6: "user", 7: ["g"]}), FIVES),
    (positional("get_partitions", DB, "t", -1), ALL),
    (positional("get_partitions_with_auth", DB, "t", 2, "user", ["group"]), ALL[:2]),
    (request("get_partitions_req", {1: "hive", 2: DB, 3: "t", 7: False}), ALL),
]


@pytest.mark.parametrize(("message", "names"), LISTS, ids=lambda one: getattr(one, "name", ""))
def test_lists_of_partitions_equal_those_of_the_source(
    endpoint: Endpoint, message: Message, names: list[str]
) -> None:
    assert endpoint.ask(message) == endpoint.partitions(names)
    assert endpoint.outcomes.answered_calls == [(message.name, f"{DB}.t", len(endpoint.source.events))]
    assert endpoint.ask(message) == endpoint.partitions(names)
    assert endpoint.outcomes.repeated == 1


@pytest.mark.parametrize("message", [message for message, _ in LISTS], ids=lambda one: one.name)
def test_after_a_change_of_the_table_the_answer_is_made_again(endpoint: Endpoint, message: Message) -> None:
    endpoint.ask(message)
    endpoint.source.drop("t", *ROWS[0])
    endpoint.source.drop("t", *ROWS[2])
    endpoint.source.alter_partition("t", ROWS[3], {"numRows": "7"})
    endpoint.indexed.follow()
    assert endpoint.ask(message) == endpoint.ask_again(message)
    assert endpoint.outcomes.repeated == 0


@pytest.mark.parametrize(
    ("message", "names"),
    [
        (positional("get_partition_names", DB, "t", -1), ALL),
        (positional("get_partition_names", DB, "t", 2), ALL[:2]),
        (positional("get_partition_names_ps", DB, "t", ["", "5"], -1), FIVES),
        (positional("get_partition_names_ps", DB, "t", ["us_east", ""], -1), ALL[4:]),
        (request("get_partition_names_ps_req", {2: DB, 3: "t", 4: ["", ""], 5: -1}), ALL),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_names_are_listed_in_order(endpoint: Endpoint, message: Message, names: list[str]) -> None:
    assert endpoint.ask(message) == names


@pytest.mark.parametrize(
    "message",
    [
        positional("get_partition", DB, "t", ["2020-01-02", "5"]),
        request("get_partition_req", {1: "hive", 2: DB, 3: "t", 4: ["2020-01-02", "5"]}),
        positional("get_partition_with_auth", DB, "t", ["2020-01-02", "5"], "user", ["group"]),
        positional("get_partition_by_name", DB, "t", FIVES[1]),
    ],
    ids=lambda one: one.name,
)
def test_one_partition_is_found_by_values_or_name(endpoint: Endpoint, message: Message) -> None:
    assert [endpoint.ask(message)] == endpoint.partitions(FIVES[1:])


def test_partitions_are_counted(endpoint: Endpoint) -> None:
    assert endpoint.ask(positional("get_num_partitions_by_filter", DB, "t", "hr > 5")) == 2


SIX = call("OPGreaterThan", column("hr", "int"), constant(6, "int"))
FROM_2020 = call("OPGreaterThan", column("dt"), constant("2020"))


@pytest.mark.parametrize(
    ("expression", "names"), [(SIX, [ALL[0], ALL[3]]), (call("OPNull", SIX.arguments[0]), ALL[4:])]
)
def test_expressions_find_partitions_and_names(
    endpoint: Endpoint, expression: Expression, names: list[str]
) -> None:
    endpoint.expressions[b"x"] = expression
    fields = {1: DB, 2: "t", 3: "x", 4: "__HIVE_DEFAULT_PARTITION__", 5: -1, 6: "hive", 7: "", 8: "ids"}
    assert endpoint.ask(request("get_partitions_by_expr", fields)) == endpoint.partitions(names)
    assert endpoint.ask(request("get_partition_names_req", {1: DB, 2: "t", 3: "x"})) == names


@pytest.mark.parametrize(
    ("fields", "expression", "reason"),
    [
        ({}, None, Reason.EXPRESSION),
        ({}, call("OPEqual", call("Length", column("dt")), constant(3, "int")), Reason.EXPRESSION),
        ({4: "other"}, SIX, Reason.ARGUMENTS),
        ({7: "order"}, SIX, Reason.ARGUMENTS),
        ({10: True}, SIX, Reason.ARGUMENTS),
        ({5: 3}, SIX, Reason.NOT_CERTAIN),
    ],
)
def test_expressions_that_cannot_be_answered_exactly_are_forwarded(
    endpoint: Endpoint, fields: dict[int, Any], expression: Expression | None, reason: Reason
) -> None:
    if expression is not None:
        endpoint.expressions[b"x"] = expression
    for name in ("get_partitions_by_expr", "get_partition_names_req"):
        assert endpoint.ask(request(name, {1: DB, 2: "t", 3: "x", **fields})) is None
    assert endpoint.outcomes.reasons == [reason] * 2


def test_an_expression_on_a_text_that_may_be_null_is_not_certain(endpoint: Endpoint) -> None:
    endpoint.expressions[b"x"] = FROM_2020
    asked = request("get_partitions_by_expr", {1: DB, 2: "t", 3: "x"})
    assert len(endpoint.ask(asked)) == len(ALL)
    endpoint.source.add("t", "__HIVE_DEFAULT_PARTITION__", "3")
    endpoint.indexed.follow()
    assert endpoint.ask(asked) is None
    assert endpoint.outcomes.reasons == [Reason.NOT_CERTAIN]


def test_every_call_is_covered_by_these_tests() -> None:
    tested = {message.name for message, _ in LISTS} | {
        "get_partitions_by_expr", "get_partition_names_req", "get_partitions_spec_by_expr",
        "get_num_partitions_by_filter", "get_partition", "get_partition_by_name", "get_partition_names",
        "get_partition_names_ps", "get_partition_names_ps_req", "get_partition_req",
        "get_partition_with_auth",
    }  # fmt: skip
    assert tested == CALLS.keys()


FORWARDED = [
    (positional("get_partitions", DB, "unknown", -1), Reason.UNKNOWN_TABLE),
    (positional("get_partitions", "@other#db", "t", -1), Reason.ARGUMENTS),
    (positional("get_partitions", DB, "t", 0), Reason.ARGUMENTS),
    (positional("get_partitions", DB, "t"), Reason.ARGUMENTS),
    (positional("get_partitions", DB, "t", -1, "more"), Reason.ARGUMENTS),
    (request("get_partitions_req", {2: DB, 3: "t", 99: "future"}), Reason.ARGUMENTS),
    (request("get_partitions_req", {1: "other", 2: DB, 3: "t"}), Reason.ARGUMENTS),
    (request("get_partitions_req", {2: DB, 3: "t", 7: True}), Reason.ARGUMENTS),
    (request("get_partitions_req", {2: DB, 3: "t", 8: "num%"}), Reason.ARGUMENTS),
    (request("get_partitions_by_names_req", {1: DB, 2: "t", 3: FIVES, 4: True}), Reason.ARGUMENTS),
    (request("get_partitions_by_filter_req", {2: DB, 3: "t", 4: ""}), Reason.ARGUMENTS),
    (positional("get_partition_names_ps", DB, "t", ["2020-01-01"], -1), Reason.ARGUMENTS),
    (positional("get_partition_names_ps", DB, "t", ["", ""], 3), Reason.NOT_CERTAIN),
    (positional("get_partitions_ps", DB, "t", ["us_east", ""], -1), Reason.NOT_CERTAIN),
    (positional("get_partitions_by_filter", DB, "t", "hr =", -1), Reason.REFUSED),
    (positional("get_partitions_by_filter", DB, "t", "nosuch = 1", -1), Reason.REFUSED),
    (positional("get_partition", DB, "t", ["2020-01-03", "5"]), Reason.REFUSED),
    (positional("get_partition", DB, "t", ["2020-01-03"]), Reason.REFUSED),
    (positional("get_partition_by_name", DB, "t", "dt=2020-01-03/hr=5"), Reason.REFUSED),
    (positional("get_partitions_by_filter", DB, "t", "dt != 'us_east'", -1), Reason.NOT_CERTAIN),
    (positional("get_partitions_by_filter", DB, "t", r"dt = 'a\b'", -1), Reason.NOT_CERTAIN),
    (positional("get_partitions_by_filter", DB, "t", "dt = 'a '", -1), Reason.NOT_CERTAIN),
    (positional("get_partitions_by_filter", DB, "t", "dt < '\U0001f600'", -1), Reason.NOT_CERTAIN),
    (
        positional("get_partitions_by_filter", DB, "t", "(dt) not in ('a') is not true", -1),
        Reason.NOT_CERTAIN,
    ),
    (
        positional("get_partitions_by_filter", DB, "t", "(struct(dt, hr)) in (struct('a', 1))", -1),
        Reason.NOT_CERTAIN,
    ),
]


@pytest.mark.parametrize(("message", "reason"), FORWARDED)
def test_calls_that_are_not_certain_are_forwarded(
    endpoint: Endpoint, message: Message, reason: Reason
) -> None:
    assert endpoint.ask(message) is None
    assert endpoint.outcomes.reasons == [reason]


def test_calls_that_are_not_about_partitions_are_left_alone(endpoint: Endpoint) -> None:
    assert endpoint.ask(positional("get_table", DB, "t")) is None
    assert endpoint.outcomes.reasons == []
    assert endpoint.metastore.calls == []


@pytest.mark.parametrize("other", ["007", "abc", "99999999999"])
def test_a_number_in_another_form_makes_filters_on_its_column_uncertain(other: str) -> None:
    endpoint = Endpoint(*ROWS, ("2020-01-03", other))
    for text in ("hr = 7", "hr > 5"):
        assert endpoint.ask(positional("get_partitions_by_filter", DB, "t", text, -1)) is None
        assert endpoint.outcomes.reasons.pop() is Reason.NOT_CERTAIN
    assert len(endpoint.ask(positional("get_partitions_by_filter", DB, "t", "dt > '2020-01-02'", -1))) == 3


@pytest.mark.parametrize(
    "text", ["dt = 'a'", "dt != 'a'", "dt <= 'a'", "dt > 'a'", "(dt) in ('b', 'a')", "hr = 1 or dt >= 'a'"]
)
def test_a_value_that_some_databases_take_for_a_constant_makes_its_comparison_uncertain(text: str) -> None:
    endpoint = Endpoint(*ROWS, ("a  ", "1"))
    assert Endpoint().ask(positional("get_partitions_by_filter", DB, "t", text, -1)) is not None, "has 'a b'"
    assert endpoint.ask(positional("get_partitions_by_filter", DB, "t", text, -1)) is None
    assert endpoint.outcomes.reasons == [Reason.NOT_CERTAIN]
    for certain in ("dt > 'b'", "dt like 'a%'", "(dt) not in ('b') is true", "((dt) in ('b')) is not true"):
        assert endpoint.ask(positional("get_partitions_by_filter", DB, "t", certain, -1)) is not None


def test_partitions_whose_order_depends_on_the_database_are_forwarded() -> None:
    fullwidth, emoji = ("\uff3a", "1"), ("\U0001f600", "1")
    endpoint = Endpoint(*ROWS, fullwidth, emoji)
    for name, *more in (
        ("get_partitions", -1),
        ("get_partition_names", -1),
        ("get_partitions_by_filter", "hr = 1", -1),
    ):
        assert endpoint.ask(positional(name, DB, "t", *more)) is None
    assert endpoint.outcomes.reasons == [Reason.NOT_CERTAIN] * 3
    assert len(endpoint.ask(positional("get_partitions_by_filter", DB, "t", "hr = 5", -1))) == len(FIVES)
    assert len(endpoint.ask(positional("get_partitions", DB, "t", 2))) == 2
    only = Endpoint(*ROWS, emoji)
    assert len(only.ask(positional("get_partition_names", DB, "t", -1))) == len(ALL) + 1
    assert only.ask(positional("get_partition_names", DB, "t", 100)) is None


def test_an_index_that_is_not_fresh_forwards_with_its_reason(endpoint: Endpoint) -> None:
    endpoint.tables.forward = Reason.NOT_FRESH
    assert endpoint.ask(positional("get_partitions", DB, "t", -1)) is None
    assert endpoint.outcomes.reasons == [Reason.NOT_FRESH]


def test_a_defect_forwards_the_call(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(endpoint.tables, "_follower")
    assert endpoint.ask(positional("get_partitions", DB, "t", -1)) is None
    assert endpoint.outcomes.reasons == [Reason.DEFECT]


def test_a_payload_that_cannot_be_read_forwards_the_call(endpoint: Endpoint) -> None:
    store = endpoint.indexed.store
    dictionaries = list(store.scan_keys(b"pd/", b"pd0"))
    with store.transaction() as txn:
        for key in dictionaries:
            txn.delete(key)
    endpoint.indexed.follower.open(store)  # otherwise it remembers them
    assert endpoint.ask(positional("get_partitions", DB, "t", -1)) is None
    assert endpoint.outcomes.reasons == [Reason.UNAVAILABLE]


def test_partitions_with_privileges_are_forwarded_if_a_user_asks(endpoint: Endpoint) -> None:
    endpoint.source.alter("t", "t", {"PARTITION_LEVEL_PRIVILEGE": "TRUE"})
    endpoint.indexed.follow()
    asked = positional("get_partitions_with_auth", DB, "t", -1, "user", ["group"])
    assert endpoint.ask(asked) is None
    assert endpoint.outcomes.reasons == [Reason.ARGUMENTS]
    assert endpoint.ask(positional("get_partitions_with_auth", DB, "t", -1)) is not None


@pytest.mark.parametrize("capabilities", [["HIVEFULLACIDREAD"], ["HIVEBUCKET2"]])
@pytest.mark.parametrize("buckets", [-1, 4])
def test_buckets_are_forwarded_for_a_client_that_cannot_read_them(
    endpoint: Endpoint, capabilities: list[str], buckets: int
) -> None:
    endpoint.source.tables["t"].sd.numBuckets = buckets
    endpoint.source.alter("t", "t", {})
    endpoint.indexed.follow()
    found = endpoint.ask(request("get_partitions_by_names_req", {1: DB, 2: "t", 3: FIVES, 5: capabilities}))
    assert (found is None) == (buckets > 0 and capabilities == ["HIVEFULLACIDREAD"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hive__metastore__pre__event__listeners", "org.example.Authorizer"),
        ("hive__metastore__limit__partition__request", "100"),
        ("hive__metastore__filter__hook", "org.example.Hook"),
        ("hive__metastore__try__direct__sql", "false"),
        ("hive__metastore__rawstore__impl", "org.apache.hadoop.hive.metastore.cache.CachedStore"),
        ("metastore__catalog__default", "other"),
    ],
)
def test_a_server_whose_answers_depend_on_more_than_the_partitions_is_left_alone(
    name: str, value: str
) -> None:
    endpoint = Endpoint(metastore=SettingsOnly(**{name: value}))
    for _ in range(2):
        assert endpoint.ask(positional("get_partitions", DB, "t", -1)) is None
    assert endpoint.outcomes.reasons == [Reason.SERVER] * 2
    assert endpoint.metastore.calls.count("getVersion") == 1


def test_a_filter_hook_that_the_server_does_not_use_does_not_matter() -> None:
    settings = {"hive__metastore__filter__hook": "x.Hook", "metastore__server__filter__enabled": "false"}
    endpoint = Endpoint(metastore=SettingsOnly(**settings))
    assert endpoint.ask(positional("get_partitions", DB, "t", -1)) is not None


def test_a_client_that_changes_the_settings_of_its_connection_is_left_alone(endpoint: Endpoint) -> None:
    assert endpoint.ask(positional("setMetaConf", "metastore.try.direct.sql", "false")) is None
    assert endpoint.ask(positional("get_partitions", DB, "t", -1)) is None
    assert endpoint.outcomes.reasons == [Reason.SERVER]


def test_filters_are_read_as_the_servers_version_reads_them() -> None:
    endpoint = Endpoint(metastore=SettingsOnly("3.0"))
    assert len(endpoint.ask(positional("get_partitions_by_filter", DB, "t", "dt like '2020.*'", -1))) == 3
    assert endpoint.ask(positional("get_partitions_by_filter", DB, "t", "dt like '2020%'", -1)) == []
    assert endpoint.ask(positional("get_partitions_by_filter", DB, "t", "dt like 'a' and hr = 5", -1)) is None
    assert endpoint.ask(positional("get_partition_names_ps", DB, "t", ["a.b", ""], -1)) is None
    assert endpoint.outcomes.reasons == [Reason.NOT_CERTAIN] * 2


def test_servers_before_hive_4_send_no_write_ids() -> None:
    for version, expected in (("3.0", None), ("4.2.0", -1)):
        endpoint = Endpoint(metastore=SettingsOnly(version))
        found = endpoint.ask(positional("get_partitions", DB, "t", -1))
        assert [partition.writeId for partition in found] == [expected] * len(ALL)


def test_a_partition_without_a_write_id_at_its_end_is_forwarded_for_old_servers() -> None:
    assert without_write_id(b"\x0b\x00\x02\x00\x00\x00\x01d\x00") is None


def test_calls_that_the_server_does_not_know_are_forwarded() -> None:
    endpoint = Endpoint(metastore=SettingsOnly("3.0"))
    for message in (
        request("get_partitions_req", {1: "hive", 2: DB, 3: "t"}),
        request("get_partition_req", {1: "hive", 2: DB, 3: "t", 4: ["a b", "7"]}),
        request("get_partitions_by_names_req", {1: DB, 2: "t", 3: FIVES}),
    ):
        assert endpoint.ask(message) is None
    assert endpoint.outcomes.reasons == [Reason.REFUSED] * 3


@pytest.mark.parametrize("has_catalogs", [True, False])
def test_a_database_with_its_catalog_is_forwarded_to_a_server_without_catalogs(has_catalogs: bool) -> None:
    endpoint = Endpoint(metastore=SettingsOnly("3.0"))
    endpoint.metastore.has_catalogs = has_catalogs
    found = endpoint.ask(positional("get_partition_names", f"@hive#{DB}", "t", -1))
    assert (found is None) != has_catalogs
    assert endpoint.ask(positional("get_partition_names", DB, "t", -1)) is not None


def test_some_partitions_of_a_specification_are_forwarded_where_the_server_defines_no_order() -> None:
    endpoint = Endpoint(metastore=SettingsOnly("3.0"))
    assert endpoint.ask(positional("get_partitions_ps", DB, "t", ["", "5"], 1)) is None
    assert len(endpoint.ask(positional("get_partitions_ps", DB, "t", ["", "5"], -1))) == 2
    assert endpoint.outcomes.reasons == [Reason.NOT_CERTAIN]


def test_an_answer_that_was_kept_wrongly_is_found_by_verification(endpoint: Endpoint) -> None:
    asked, wrong = positional("get_partition_names", DB, "t", -1), [*ALL, "dt=never/hr=1"]
    kept = request("get_partition_names_ps_req", {2: DB, 3: "t", 4: ["", ""], 5: -1})
    right = Endpoint().responder.respond(asked, endpoint.metastore)
    other = Endpoint(*ROWS, ("never", "1")).responder.respond(asked, endpoint.metastore)
    assert right is not None
    assert other is not None
    endpoint.ask(kept)
    found = endpoint.tables.arrive().read(DB, "t", TableContent.of)
    assert isinstance(found, tuple)
    assert found[0] is not None
    endpoint.cache.put(asked, ServerRules(HIVE_4, is_hive_4=True), found[0], other.body)
    assert endpoint.ask(asked) == sorted(wrong)
    metastore = AnswersAlways(right)
    verifier = Verifier(
        lambda: metastore,
        lambda message, _: endpoint.responder.respond(message, endpoint.metastore),
        DifferingTables(),
        lambda _: None,
    )
    assert verifier.compare(Sample(asked, other, f"{DB}.t", 1, 1)) is Outcome.DIFFERENT
