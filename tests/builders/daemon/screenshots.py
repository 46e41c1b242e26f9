"""``python -m tests.builders.daemon.screenshots`` takes the pictures of the site in docs/pictures,
as an operator sees it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final, Literal

from daemon.http.access import Access, Gate
from daemon.http.tokens import Client, Role, TokenFile, Tokens
from tests.builders.daemon import site_states
from tests.builders.daemon.assembly import app_of
from tests.builders.daemon.browsers import launched_browser
from tests.builders.daemon.http_client import served


DIRECTORY: Final = Path(__file__).parents[3] / "docs" / "pictures"
TOKEN: Final = "o" * 32
Theme = Literal["light", "dark"]
PICTURES: Final[dict[str, tuple[str, Theme, int]]] = {
    "site-overview": ("/", "light", 1280),
    "site-overview-dark": ("/", "dark", 1280),
    "site-policies": ("/policies", "light", 1280),
}
"""Path, theme and width of each picture."""


def main() -> None:
    """Write every picture."""
    with tempfile.TemporaryDirectory() as directory, launched_browser() as browser:
        file = Path(directory) / "token"
        file.write_text(TOKEN)
        tokens = Tokens([TokenFile(Client("ada", Role.OPERATE), file)])
        app = Gate(
            app_of(status=site_states.troubled_status),
            Access(tokens=tokens, allows_anonymous=False),
            lambda _: None,
        )
        with served(app) as server:
            for name, (path, theme, width) in PICTURES.items():
                page = browser.new_page(
                    http_credentials={"username": "ada", "password": TOKEN},
                    color_scheme=theme,
                    viewport={"width": width, "height": 800},
                )
                page.goto(f"http://127.0.0.1:{server.port}{path}")
                page.screenshot(path=DIRECTORY / f"{name}.png")
                page.close()


if __name__ == "__main__":
    main()
