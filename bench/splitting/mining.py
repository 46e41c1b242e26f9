"""Keys mined out of query texts, per second of one core; rows of ``bench.splitting``.

Texts of about 200 characters, every one with a fingerprint of its own, so that each is parsed: that is ``mining``, the worst case. A
query log is better to us: ``mining_log`` is a thousand users' day, nine texts of ten that were seen before with other dates and half of
all that concern no raw table. The rival is sqlglot alone on the same texts, parsed one by one, with nothing taken out of the tree;
processor times, because nothing here waits.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from sqlglot.dialects.dialect import Dialect

from bench.report import Row, median_s, row
from streaming.mining.miner import Miner
from streaming.mining.model import CustomFunction, MiningRules, QueryText, RawTable


if TYPE_CHECKING:
    from collections.abc import Sequence


RULES = MiningRules((RawTable("default.raw_events", "json"),), (CustomFunction("event_parser"),))
RIVAL = "sqlglot alone, every text"
FORMS = (
    (
        "SELECT get_json_object(json, '$.{0}') AS a, count(*) FROM default.raw_events e WHERE yyyy_mm_dd = '{2}' "
        "AND get_json_object(e.json, '$.{1}') = 'x' GROUP BY get_json_object(json, '$.{0}')"
    ),
    (
        "SELECT r.a, r.b, e.epoch FROM default.raw_events e LATERAL VIEW event_parser(e.json, '{0}', '{1}') r AS a, b "
        "WHERE yyyy_mm_dd = '{2}' AND hh = 21 AND is_frontend = 1 AND r.a = 'explorer'"
    ),
    (
        "WITH u AS (SELECT get_json_object(json, '$.{0}') u FROM raw_events WHERE yyyy_mm_dd = '{2}') "
        "SELECT get_json_object(u, '$.{1}'), count(*) FROM u GROUP BY get_json_object(u, '$.{1}')"
    ),
)
OTHERS = "SELECT user_id, sum(amount) FROM sales.orders o JOIN sales.items i ON o.id = i.id WHERE day = '{2}' AND shop = '{0}' GROUP BY user_id"


def rows(quick: bool) -> list[Row]:
    """Return the rows; ``quick`` takes fewer texts."""
    count = 1_000 if quick else 4_000
    distinct = texts(count, distinct=count, foreign=0)
    log = texts(count * 5, distinct=count // 2, foreign=0.5)
    return [
        row(
            "mining",
            per_second(distinct),
            "queries/s",
            at_least=1500,
            rival=(RIVAL, parsed_per_second(distinct)),
        ),
        row(
            "mining_log",
            per_second(log),
            "queries/s",
            at_least=1500,
            rival=(RIVAL, parsed_per_second(log[:count])),
        ),
        row("mining_text", sum(map(len, distinct)) / count, "chars"),
    ]


def texts(count: int, *, distinct: int, foreign: float) -> list[str]:
    """Make texts by a fixed seed: ``distinct`` fingerprints, the literals of each text its own."""
    chance = random.Random(6)
    shapes = [shape(chance, foreign, number) for number in range(distinct)]
    return [
        chance.choice(shapes).replace("DAY", f"2016-04-{chance.randrange(30):02}")
        if count > distinct
        else text
        for text in (shapes if count == distinct else [""] * count)
    ]


def shape(chance: random.Random, foreign: float, number: int) -> str:
    form = OTHERS if chance.random() < foreign else chance.choice(FORMS)
    keys = [f"{chance.choice(('action', 'http', 'user', 'device'))}.k{number}_{at}" for at in range(2)]
    return form.format(*keys, "DAY")


def per_second(given: Sequence[str]) -> float:
    queries = [QueryText(text, "ann", 1_461_000_000, "bench") for text in given]

    def mine_all() -> None:
        miner = Miner(RULES)
        for query in queries:
            miner.mine(query)

    miner = Miner(RULES)
    assert all(miner.mine(query)[1].keys for query in queries if "raw_events" in query.text)
    return len(given) / median_s(mine_all, repeats=3, cpu=True)


def parsed_per_second(given: Sequence[str]) -> float:
    hive = Dialect.get_or_raise("hive")

    def parse_all() -> None:
        for text in given:
            hive.parse(text)

    return len(given) / median_s(parse_all, repeats=3, cpu=True)
