"""Events of a travel site's web servers, about 1.5 KB each: the same ones for the same seed, on every machine.

What makes real events hard is in them: few keys in every event and hundreds in some; names chosen by people at run time
(``experiment.exp_1042``); one key with numbers here and quoted numbers there; integers beyond 64 bits; objects where another
event has ``false``; nulls, escapes, text in several scripts. ``write`` makes a gigabyte in about a minute; ``conflicts`` says which keys
switch kinds, so that tests need not guess.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


EPOCH_S: Final = 1_461_013_200
HOUR_S: Final = 3_600
PAGES: Final = {
    "explorer": 30,
    "searchresults": 20,
    "hotel": 18,
    "book": 8,
    "confirm": 4,
    "landing": 10,
    "login": 3,
    "map": 3,
    "reviews": 5,
    "error": 1,
    "ajax": 25,
}
LANGUAGES: Final = {
    "en-us": 30,
    "en-gb": 12,
    "de": 10,
    "fr": 8,
    "es": 7,
    "it": 6,
    "nl": 5,
    "ru": 4,
    "zh": 3,
    "ja": 2,
}
COUNTRIES: Final = ("us", "gb", "de", "fr", "es", "it", "nl", "ru", "cn", "br", "jp", "pl", "in", "ca", "au")
WORDS: Final = (
    "room",
    "sea",
    "view",
    "beach",
    "city",
    "center",
    "hotel",
    "apartment",
    "villa",
    "with",
    "pool",
    "free",
    "wifi",
    "breakfast",
    "included",
    "über",
    "château",
    "東京",
    "familie",
    "no",
)
BROWSERS: Final = (
    "Mozilla/5.0 (Windows NT 10.0; WOW64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.2661.87 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 9_3_1 like Mac OS X) AppleWebKit/601.1.46 (KHTML, like Gecko) Mobile/13E{}",
    "Mozilla/5.0 (X11; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/45.0",
)
RARE: Final = ("tag", "flag", "note", "src", "dst", "ref", "score", "level", "ratio", "label")
conflicts: Final = frozenset(
    {
        ("v",),
        ("action", "stid"),
        ("http", "status"),
        ("user", "genius"),
        ("hotel", "price"),
        ("search", "page"),
        ("error", "code"),
        ("mobile",),
        ("mobile", "ver"),
        ("booking", "big"),
    }
)
"""Keys whose values are of several kinds, or whose integers do not fit into 64 bits."""


def write(path: Path, count: int, *, seed: int = 1) -> int:
    """Write ``count`` events, one a line, and return the bytes."""
    written = 0
    with path.open("wb") as file:
        for line in lines(count, seed=seed):
            written += file.write(line.encode() + b"\n")
    return written


def lines(count: int, *, seed: int = 1) -> Iterator[str]:
    """Yield ``count`` events as JSON, half of them with everything beyond ASCII escaped; all within one hour."""
    chance = random.Random(seed)
    for number in range(count):
        made = event(chance, EPOCH_S + number * HOUR_S // count)
        yield json.dumps(made, separators=(",", ":"), ensure_ascii=chance.random() < 0.5)


def event(chance: random.Random, epoch_s: int) -> dict[str, Any]:
    """Return one event."""
    page = _weighted(chance, PAGES)
    made: dict[str, Any] = {
        "epoch": epoch_s,
        "uuid": _hex(chance, 32),
        "dc": chance.choice(("ams1", "ams4", "lhr2", "fra1")),
        "is_frontend": int(chance.random() < 0.8),
        "server": f"web-{_skewed(chance, 800):04d}.prod",
        "v": chance.choice((3, 3, 3, "3", "3.1")),
        "action": _action(chance, page),
        "http": _http(chance, page),
        "user": _user(chance),
        "geo": _geo(chance),
    }
    made |= {name: make(chance) for name, (pages, make) in _PARTS.items() if page in pages}
    if chance.random() < 0.5:
        made["perf"] = _perf(chance)
    if page == "error" or chance.random() < 0.01:
        made["error"] = _error(chance)
    if chance.random() < 0.1:
        made["mobile"] = _mobile(chance)
    for _ in range(_skewed(chance, 20)):
        rare = _skewed(chance, 90)
        made.setdefault("x", {}).setdefault(RARE[rare % 10], {})[f"k{rare}"] = _anything(chance)
    return made


def _action(chance: random.Random, page: str) -> dict[str, Any]:
    experiments = {
        f"exp_{1000 + _skewed(chance, 400)}": chance.randrange(3) for _ in range(3 + _skewed(chance, 14))
    }
    return {
        "name": page,
        "language": _weighted(chance, LANGUAGES),
        "experiment": experiments,
        "type": chance.choice(("page", "xhr", "api")),
        "pageview_id": _hex(chance, 16),
        "stid": chance.choice((304142, 304142, "304142", -1)),
        "is_robot": chance.random() < 0.07,
        "wallclock": round(chance.expovariate(6), chance.choice((3, 3, 6))),
    }


def _http(chance: random.Random, page: str) -> dict[str, Any]:
    language = _weighted(chance, LANGUAGES)
    address = ".".join(str(chance.randrange(1, 256)) for _ in range(4))
    return {
        "method": "GET" if chance.random() < 0.9 else "POST",
        "status": _weighted(chance, {200: 90, 302: 6, 404: 2, 500: 1, "200": 1}),
        "host": "www.example.com",
        "path": f"/{page}/{chance.choice(COUNTRIES)}/{'-'.join(_words(chance, 2).split())}.html",
        "ip": address,
        "user_agent": chance.choice(BROWSERS).format(chance.randrange(30, 60)),
        "referer": f"https://www.example.com/{page}.{language}.html?sid={_hex(chance, 32)};dcid={chance.randrange(1, 13)};src={page}",
        "bytes": int(chance.lognormvariate(10, 1.2)),
        "body_parameters": _parameters(chance),
        "headers": {
            "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8",
            "accept-language": f"{language};q=0.8,en;q=0.6",
            "accept-encoding": "gzip, deflate, sdch",
            "x-forwarded-for": address,
            "dnt": chance.choice(("1", "0")),
        },
    }


def _parameters(chance: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if chance.random() < 0.6:
        made = {
            "checkin": _date(chance),
            "checkout": _date(chance),
            "group_adults": str(chance.randrange(1, 5)),
            "group_children": "0",
            "no_rooms": "1",
            "ss": _words(chance, 2),
            "dest_id": str(-chance.randrange(2_600_000)),
            "dest_type": "city",
            "aid": str(304142 + _skewed(chance, 1000)),
        }
    if chance.random() < 0.15:
        made["q"] = _words(chance, chance.randrange(1, 8))
    return made


def _user(chance: random.Random) -> dict[str, Any]:
    small, large = chance.randrange(1, 90_000_000), chance.randrange(10**10, 10**12)
    return {
        "id": chance.choice((small, small, None, large)),
        "logged_in": chance.random() < 0.3,
        "cookie": _hex(chance, 40),
        "genius": chance.choice((True, False, 0, 1)),
        "country": chance.choice(COUNTRIES),
    }


def _geo(chance: random.Random) -> dict[str, Any]:
    return {
        "lat": round(chance.uniform(-60, 70), 5),
        "lon": round(chance.uniform(-180, 180), 5),
        "cc": chance.choice(COUNTRIES),
        "zip": f"{chance.randrange(100_000):05d}",
        "city": _words(chance, 1),
    }


def _hotel(chance: random.Random) -> dict[str, Any]:
    price = chance.uniform(20, 900)
    return {
        "id": chance.randrange(10_000, 2_000_000),
        "ufi": -chance.randrange(2_600_000),
        "class": chance.choice((0, 1, 2, 3, 3.5, 4, 4.5, 5)),
        "price": chance.choice((int(price), round(price, 2), f"{price:.2f}")),
        "currency": chance.choice(("EUR", "USD", "GBP")),
        "rooms_left": chance.randrange(12),
        "name": _words(chance, 4),
        "review": {"score": round(chance.uniform(2, 10), 1), "count": int(chance.lognormvariate(4, 1.5))},
    }


def _search(chance: random.Random) -> dict[str, Any]:
    hits = range(chance.choice((5, 10, 15)))
    return {
        "id": _hex(chance, 16),
        "n": chance.randrange(3000),
        "page": chance.choice((1, 1, 1, 2, 3, "2")),
        "took_ms": int(chance.lognormvariate(5, 1)),
        "sort": chance.choice(("popularity", "price", "class")),
        "filters": [chance.choice(("ht_id=204", "class=4", "mealplan=1")) for _ in range(_skewed(chance, 6))],
        "results": [
            {"id": chance.randrange(10_000, 2_000_000), "p": round(chance.uniform(20, 900), 2), "r": rank}
            for rank in hits
        ],
    }


def _booking(chance: random.Random) -> dict[str, Any]:
    return {
        "bn": chance.randrange(10**8, 2 * 10**9),
        "pin": f"{chance.randrange(10_000):04d}",
        "amount": round(chance.uniform(30, 4000), 2),
        "nights": chance.randrange(1, 15),
        "token": str(chance.getrandbits(80)),
        "big": chance.getrandbits(70),
    }


def _perf(chance: random.Random) -> dict[str, Any]:
    return {
        "ttfb": chance.randrange(2000),
        "dom": chance.randrange(9000),
        "load": chance.randrange(30_000),
        "sql": {"n": _skewed(chance, 300), "ms": round(chance.expovariate(0.02), 3)},
        "memc": {"n": _skewed(chance, 900), "ms": round(chance.expovariate(0.1), 3)},
        "mem_kb": int(chance.lognormvariate(12, 0.4)),
        "cpu_u": round(chance.random(), 4),
        "cpu_s": round(chance.random() / 5, 4),
    }


def _error(chance: random.Random) -> dict[str, Any]:
    place = f"lib/{chance.choice(WORDS)}.pm"
    return {
        "code": chance.choice((500, "E500", 404)),
        "msg": f'Can\'t locate object method "{chance.choice(WORDS)}"\n\tat {place} line {chance.randrange(3000)}.',
        "stack": [{"f": f"lib/{chance.choice(WORDS)}.pm", "l": chance.randrange(3000)} for _ in range(20)],
    }


def _mobile(chance: random.Random) -> Any:
    apple = {"os": "ios", "ver": "9.3.1", "app": f"10.{chance.randrange(9)}", "push": chance.random() < 0.5}
    return chance.choice((apple, {"os": "android", "ver": 6, "app": f"10.{chance.randrange(9)}"}, False))


def _anything(chance: random.Random) -> Any:
    return chance.choice((chance.randrange(1000), _hex(chance, 8), round(chance.random(), 3), None, ""))


def _weighted(chance: random.Random, weights: dict[Any, int]) -> Any:
    return chance.choices(tuple(weights), tuple(weights.values()))[0]


def _skewed(chance: random.Random, count: int) -> int:
    """A number below ``count``, small ones far more often."""
    return min(count - 1, int(chance.paretovariate(1.1)) - 1)


def _hex(chance: random.Random, digits: int) -> str:
    return f"{chance.getrandbits(4 * digits):0{digits}x}"


def _words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(WORDS, k=count))


def _date(chance: random.Random) -> str:
    return f"2016-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}"


_PARTS: Final = {
    "hotel": ({"hotel", "book", "confirm"}, _hotel),
    "search": ({"searchresults", "explorer"}, _search),
    "booking": ({"book", "confirm"}, _booking),
}
