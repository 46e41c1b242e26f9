from __future__ import annotations

import pytest

from handlers.replication.target.view_text import rename_database


def of_replica(text: str) -> str:
    """Return the text that the replica ``shop_r`` gets."""
    return rename_database(text, "shop", "shop_r")


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
        "select 1 from {db}.`shop` where `shop`.`id` in (select `shop`.`id` from {db}.`shop`) and `shop`.`v`=1",
        "select extract(year from `shop`.`d`) `y`, `shop`.`id` from {db}.`shop`",
        "with shop as (select `t`.`id` from {db}.`t`) select `shop`.`id` from shop",
        "select `shop`.`id` from {db}.`t` `shop` group by `shop`.`id`, `shop`.`v`",
        "select `x`.`id` from (from {db}.`t` select `t`.`id`, `t`.`shop`) `x`, {db}.`shop`",
        "select `shop`.`id` from ({db}.`t` join {db}.`shop` on `t`.`id` = `shop`.`id`)",
        "select `shop`.`id` from {db}.`shop` union all (select `shop`.`id` from {db}.`shop` order by `shop`.`id`)",
        "select `e`.`y` from {db}.`shop` lateral view explode(map(1,`shop`.`m`)) `e` as `y`, `z`",
        "select 1 from {db}.`shop` where `shop`.`a` is distinct from `shop`.`b`",
        "select 1 from {db}.`shop`) where `shop`.`a` is not null",
    ],
)
def test_a_table_an_alias_or_a_column_may_have_the_name_of_the_database(query: str) -> None:
    assert of_replica(query.format(db="`shop`")) == query.format(db="`shop_r`")
