from __future__ import annotations

import pytest

from handlers.replication.views.databases import Query, RenamedQuery, rename_databases
from handlers.replication.views.names import HIVE, SPARK, SPARK_ANSI, TRINO, Dialect


TARGETS = {"shop": "shop_r", "lake": "lake"}


def rename(
    text: str, dialect: Dialect = SPARK, namespace: str | None = "shop", catalog: str | None = "spark_catalog"
) -> RenamedQuery:
    """Return the query on a target with ``shop`` as ``shop_r`` and ``lake``; its tables are all but
    ``secret``."""
    query = Query(text, dialect, namespace, catalog)
    return rename_databases(query, lambda db, table: None if table == "secret" else TARGETS.get(db))


def of_replica(text: str) -> str:
    """Return the text of a view of Hive on the target."""
    return rename(text, HIVE).text


@pytest.mark.parametrize(
    ("at_source", "on_target"),
    [
        ("select `o`.`id` from `shop`.`orders` `o`", "select `o`.`id` from `shop_r`.`orders` `o`"),
        ("select `t`.`id` from `SHOP`.`T`", "select `t`.`id` from `shop_r`.`T`"),
        ("select `a`.`id` from `shop` . `a`, `lake`.`b`", "select `a`.`id` from `shop_r` . `a`, `lake`.`b`"),
        ("select `t`.`shop`.`id` from `lake`.`t`", "select `t`.`shop`.`id` from `lake`.`t`"),
        ("select `shop`.`t`.`id` from `shop`.`t`", "select `shop_r`.`t`.`id` from `shop_r`.`t`"),
    ],
)
def test_a_view_reads_tables_of_the_target(at_source: str, on_target: str) -> None:
    assert of_replica(at_source) == on_target


@pytest.mark.parametrize(
    ("at_source", "on_target"),
    [
        ("select shop.mask(`t`.`v`) from `shop`.`t`", "select shop_r.mask(`t`.`v`) from `shop_r`.`t`"),
        ("select max(Shop.mask (`t`.`v`))", "select max(shop_r.mask (`t`.`v`))"),
        ("select lake.mask(1), shopping.mask(1), shop(1)", "select lake.mask(1), shopping.mask(1), shop(1)"),
    ],
)
def test_a_view_calls_functions_of_the_target(at_source: str, on_target: str) -> None:
    assert of_replica(at_source) == on_target


@pytest.mark.parametrize(
    "text",
    [
        "'`shop`.`t` shop.mask(1)'",
        '"`shop`.t \\" shop.mask(\'"',
        "'it''s `shop`.`t`'",
        "1 -- it's `shop`.`t`\n",
    ],
)
def test_strings_and_comments_stay_as_they_are(text: str) -> None:
    query = f"select {text} from `shop`.`t` where `t`.`v` = 'x'"
    assert of_replica(query) == f"select {text} from `shop_r`.`t` where `t`.`v` = 'x'"


@pytest.mark.parametrize(
    "query",
    [
        "select `shop`.`id`, `shop`.`s`.`a` from {db}.`shop`",
        "select `x`.`id` from {db}.`t` `x`, {db}.`shop` where `x`.`id`=`shop`.`id`",
        "select `shop`.`id` from {db}.`t` `x` join {db}.`shop` on `x`.`id`=`shop`.`id`, {db}.`u` as `shop`",
        (
            "select 1 from {db}.`shop` where `shop`.`id` in (select `shop`.`id` from {db}.`shop`) and "
            "`shop`.`v`=1"
        ),
        "select extract(year from `shop`.`d`) `y`, `shop`.`id` from {db}.`shop`",
        "with shop as (select `t`.`id` from {db}.`t`) select `shop`.`id` from shop",
        "select `shop`.`id` from {db}.`t` `shop` group by `shop`.`id`, `shop`.`v`",
        "select `x`.`id` from (from {db}.`t` select `t`.`id`, `t`.`shop`) `x`, {db}.`shop`",
        "select `shop`.`id` from ({db}.`t` join {db}.`shop` on `t`.`id` = `shop`.`id`)",
        (
            "select `shop`.`id` from {db}.`shop` union all (select `shop`.`id` from {db}.`shop` order by "
            "`shop`.`id`)"
        ),
        "select `e`.`y` from {db}.`shop` lateral view explode(map(1,`shop`.`m`)) `e` as `y`, `z`",
        "select 1 from {db}.`shop` where `shop`.`a` is distinct from `shop`.`b`",
        "select 1 from {db}.`shop`) where `shop`.`a` is not null",
    ],
)
def test_a_table_an_alias_or_a_column_may_have_the_name_of_the_database(query: str) -> None:
    assert of_replica(query.format(db="`shop`")) == query.format(db="`shop_r`")


@pytest.mark.parametrize(
    ("at_source", "on_target"),
    [
        ("select `shop.mask`(`t`.`v`) from `shop`.`t`", "select `shop_r.mask`(`t`.`v`) from `shop_r`.`t`"),
        ("select `SHOP.Mask`(1)", "select `shop_r.Mask`(1)"),
        ("select `lake.mask`(1), `mask`(1), `a.b`", "select `lake.mask`(1), `mask`(1), `a.b`"),
        ("select 1 from `shop.t`", "select 1 from `shop_r.t`"),
        ("select * from shop.orders o, Shop.items", "select * from shop_r.orders o, shop_r.items"),
        ("select `f`.`path` from `shop`.`t`.`files` `f`", "select `f`.`path` from `shop_r`.`t`.`files` `f`"),
    ],
)
def test_other_forms_of_hive_are_renamed(at_source: str, on_target: str) -> None:
    assert of_replica(at_source) == on_target
    assert rename(at_source, HIVE).problem is None


SPARKS = [
    ("select id from {d}.orders o join {d}.items using (id)", None),
    ("select {d}.orders.id, i.v from {d}.orders, {d}.items i where {d}.orders.id = i.id", None),
    ("select {d}.orders.* from {d}.orders", None),
    (
        "with c as (select * from spark_catalog.{d}.orders) select c.id, spark_catalog.{d}.orders.id from c",
        None,
    ),
    ("table {d}.orders", None),
    ("select 1 union all (table {d}.orders) union select * from (table {d}.orders)", None),
    ("from {d}.orders |> where id > 1 |> join {d}.items using (id)", None),
    ("select f(table {d}.orders), g(table({d}.orders)), table from lake.t", None),
    ("select {d}.mask(v), t.{s}.x, {s}.x.y, payload:{s}.orders.id from lake.t", None),
    (
        "select r'{s}.orders\\', '{s}.t', \"{s}.t\" -- {s}.t \\\n from {s}.t\n from {d}.orders /* {s}.t */",
        None,
    ),
    (
        (
            "select id from (values (1), (2)) as v(id), values (1, 2), (3, 4) join lateral (select 1 from "
            "{d}.t) u"
        ),
        None,
    ),
    ("select x[1, {s}.y] from lake.t join {d}.u on a = array(1, {s}.y)[{s}.z], {d}.v", None),
    ("select y from {d}.orders lateral view explode(m) e as {s}, y", None),
    ("select `{d}`.`orders`.id from `{d}`.`orders` tablesample (10 percent)", None),
    ("select {s}.orders.x from lake.t {s}", None),
    ("select 1 from {s}.secret", "it reads shop.secret, which is not replicated"),
    ("select 1 from elsewhere.t", "it reads elsewhere.t, which is not replicated"),
    ("select elsewhere.mask(1)", "it calls elsewhere.mask, which is not replicated"),
    ("select 1 from parquet.`/data/t`", "it reads parquet./data/t"),
    ("select 1 from ice.{s}.t", "it names the catalog ice"),
    ("select {s}.orders.x from {d}.orders join lake.t {s}", "shop.orders.x may name a column"),
    ("select 'a from {s}.t", "a quote without an end"),
    ("select 1 /* a /* b */ c */ from {d}.t", "nested comments"),
]


@pytest.mark.parametrize(("query", "problem"), SPARKS)
def test_a_view_of_spark_is_renamed_or_has_a_problem(query: str, problem: str | None) -> None:
    renamed = rename(query.format(d="shop", s="shop"))
    if problem is None:
        assert (renamed.text, renamed.problem) == (query.format(d="shop_r", s="shop"), None)
    else:
        assert problem in (renamed.problem or "")


def test_double_quotes_enclose_names_if_spark_was_told_so() -> None:
    query = 'select "shop"."orders".id, \'"shop".t\' from "shop"."orders"'
    assert rename(query, SPARK_ANSI).text == query.replace('"shop".', '"shop_r".', 1).replace(
        'from "shop"', 'from "shop_r"'
    )
    assert rename('select "shop.orders" from shop.t').text == 'select "shop.orders" from shop_r.t'


@pytest.mark.parametrize(
    ("at_source", "on_target"),
    [
        ("SELECT o.id\nFROM\n  shop.orders o", "SELECT o.id\nFROM\n  shop_r.orders o"),
        ("SELECT 'it\\' FROM \"shop\".orders", "SELECT 'it\\' FROM \"shop_r\".orders"),
        ("SELECT 1 FROM (hive.shop.a CROSS JOIN lake.b)", "SELECT 1 FROM (hive.shop_r.a CROSS JOIN lake.b)"),
        (
            "SELECT shop.a.id FROM shop.a, UNNEST(x) t (y)",
            "SELECT shop_r.a.id FROM shop_r.a, UNNEST(x) t (y)",
        ),
    ],
)
def test_a_view_of_trino_is_renamed(at_source: str, on_target: str) -> None:
    renamed = rename(at_source, TRINO, catalog="hive")
    assert (renamed.text, renamed.problem) == (on_target, None)


def test_tables_without_a_database_are_in_that_of_the_session() -> None:
    renamed = rename("with c as (select 1), d(x) as (select 2) select orders.id from orders, c, d")
    assert renamed.tables == {("shop", "orders")}
    assert renamed.namespaces == {"shop_r"}
    assert rename("select shop.orders.id from orders").text == "select shop_r.orders.id from orders"
    assert "without a database name" in (rename("select 1 from t", namespace=None).problem or "")
    assert rename("select 1 from shop.t").namespaces == frozenset()


def test_a_name_gets_quotes_if_it_needs_them() -> None:
    query = Query("select 1 from shop.t, `shop`.u", SPARK, "shop", "spark_catalog")
    assert rename_databases(query, lambda *_: "2_r").text == "select 1 from `2_r`.t, `2_r`.u"
