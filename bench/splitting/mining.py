"""Cases of ``bench.splitting``: query texts mined per second of one core.

The texts have about 200 characters. In ``mining`` every text has its own fingerprint and must be parsed,
which is the worst case. A query log is easier: ``mining_log`` is the log of one day of a thousand users. Nine
of ten texts have occurred before with other dates, and half of all texts do not use a raw table. The rival is
sqlglot alone, which parses the same texts one by one and extracts nothing. Times are processor times, because
no code here waits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from sqlglot.dialects.dialect import Dialect

from bench.report import Row, median_s, row
from streaming.mining.miner import Miner
from streaming.mining.model import CustomFunction, MiningRules, QueryText, RawTable


RULES = MiningRules((RawTable("default.raw_events", "json"),), (CustomFunction("event_parser"),))
RIVAL = "sqlglot alone, every text"
FORMS = (
    (
        "SELECT get_json_object(json, '$.{0}') AS a, count(*) FROM default.raw_events e WHERE yyyy_mm_dd = "
        "'{2}' AND get_json_object(e.json, '$.{1}') = 'x' GROUP BY get_json_object(json, '$.{0}')"
    ),
    (
        "SELECT r.a, r.b, e.epoch FROM default.raw_events e LATERAL VIEW event_parser(e.json, '{0}', '{1}') "
        "r AS a, b WHERE yyyy_mm_dd = '{2}' AND hh = 21 AND is_frontend = 1 AND r.a = 'explorer'"
    ),
    (
        "WITH u AS (SELECT get_json_object(json, '$.{0}') u FROM raw_events WHERE yyyy_mm_dd = '{2}') "
        "SELECT get_json_object(u, '$.{1}'), count(*) FROM u GROUP BY get_json_object(u, '$.{1}')"
    ),
)
OTHERS = (
    "SELECT user_id, sum(amount) FROM sales.orders o JOIN sales.items i ON o.id = i.id WHERE day = '{2}' "
    "AND shop = '{0}' GROUP BY user_id"
)


def measure(quick: bool) -> list[Row]:
    """Measure all cases; ``quick`` uses fewer texts."""
    count = 1_000 if quick else 4_000
    distinct = build_texts(count, distinct=count, foreign=0)
    log = build_texts(count * 5, distinct=count // 2, foreign=0.5)
    return [
        row(
            "mining",
            measure_mining(distinct),
            "queries/s",
            at_least=3000,
            rival=(RIVAL, measure_parsing(distinct)),
        ),
        row(
            "mining_log",
            measure_mining(log),
            "queries/s",
            at_least=3000,
            rival=(RIVAL, measure_parsing(log[:count])),
        ),
        row("mining_text", sum(map(len, distinct)) / count, "chars"),
    ]


def build_texts(count: int, *, distinct: int, foreign: float) -> list[str]:
    """Build texts from a fixed seed, with ``distinct`` different fingerprints, and with different literals in
    each text.
    """
    chance = random.Random(6)
    shapes = [build_text(chance, foreign, number) for number in range(distinct)]
    return [
        chance.choice(shapes).replace("DAY", f"2016-04-{chance.randrange(30):02}")
        if count > distinct
        else text
        for text in (shapes if count == distinct else [""] * count)
    ]


def build_text(chance: random.Random, foreign: float, number: int) -> str:
    form = OTHERS if chance.random() < foreign else chance.choice(FORMS)
    keys = [f"{chance.choice(('action', 'http', 'user', 'device'))}.k{number}_{at}" for at in range(2)]
    return form.format(*keys, "DAY")


def measure_mining(given: Sequence[str]) -> float:
    queries = [QueryText(text, "ann", 1_461_000_000, "bench") for text in given]

    def mine_all() -> None:
        miner = Miner(RULES)
        for query in queries:
            miner.mine(query)

    miner = Miner(RULES)
    assert all(miner.mine(query)[1].keys for query in queries if "raw_events" in query.text)
    return len(given) / median_s(mine_all, repeats=3, cpu=True)


def measure_parsing(given: Sequence[str]) -> float:
    hive = Dialect.get_or_raise("hive")

    def parse_all() -> None:
        for text in given:
            hive.parse(text)

    return len(given) / median_s(parse_all, repeats=3, cpu=True)
