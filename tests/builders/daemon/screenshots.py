"""``python -m tests.builders.daemon.screenshots`` takes the pictures of the site in docs/pictures,
as an operator sees it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from daemon.http.access import Access, Gate
from daemon.http.tokens import Client, Role, TokenFile, Tokens
from daemon.status.model import DaemonStatus
from tests.builders.daemon import site_states
from tests.builders.daemon.assembly import app_of
from tests.builders.daemon.browsers import launched_browser
from tests.builders.daemon.http_client import served
from tests.builders.daemon.site_catalog import all_pages


DIRECTORY: Final = Path(__file__).parents[3] / "docs" / "pictures"
TOKEN: Final = "o" * 32
Theme = Literal["light", "dark"]
PICTURES: Final[dict[str, tuple[Callable[[], DaemonStatus], str, Theme]]] = {
    "site-overview": (site_states.troubled_status, "/", "light"),
    "site-overview-dark": (site_states.healthy_status, "/", "dark"),
    "site-policies": (site_states.troubled_status, "/policies", "light"),
    "site-policy": (site_states.healthy_status, "/policies/shop", "light"),
    "site-timeline": (
        site_states.healthy_status,
        "/timelines/db.visits?from=2023-02-01&to=2023-03-01&where=or",
        "light",
    ),
    "site-partitions": (
        site_states.healthy_status,
        "/partitions/db.visits?filter=dt+%3E%3D+%272023-03-20%27+or+dt+like+%272023-02%25%27",
        "dark",
    ),
}
"""State, path and theme of each picture."""


def main() -> None:
    """Write every picture."""
    with tempfile.TemporaryDirectory() as directory, launched_browser() as browser:
        file = Path(directory) / "token"
        file.write_text(TOKEN)
        tokens = Tokens([TokenFile(Client("ada", Role.OPERATE), file)])
        access = Access(tokens=tokens, allows_anonymous=False)
        for name, (status, path, theme) in PICTURES.items():
            app = Gate(
                app_of(*all_pages(status), status=status, history=site_states.last_day),
                access,
                lambda _: None,
            )
            with served(app) as server:
                page = browser.new_page(
                    http_credentials={"username": "ada", "password": TOKEN},
                    color_scheme=theme,
                    viewport={"width": 1280, "height": 800},
                )
                answer = page.goto(f"http://127.0.0.1:{server.port}{path}")
                assert answer is not None
                assert answer.ok, f"{path}: {answer.status}"
                page.screenshot(path=DIRECTORY / f"{name}.png")
                page.close()


if __name__ == "__main__":
    main()
