"""The site of a running daemon, used by an operator who has only a browser."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Locator, Page

from tests.builders.daemon.http_client import told_port
from tests.builders.daemon.loops import DEADLINE_S


CALM: Final = "Nothing needs an operator, and nothing is blocked from outside."


@dataclass
class OperatedSite:
    """A browser that has logged in at a daemon."""

    page: Page
    address: str

    @staticmethod
    def opened(browser: Browser, state_dir: Path, token: str) -> OperatedSite:
        """Open the overview of the daemon whose state is in ``state_dir``."""
        page = browser.new_page()
        page.set_default_timeout(DEADLINE_S * 1000)
        site = OperatedSite(page, f"http://127.0.0.1:{told_port(state_dir)}")
        site.log_in(token)
        site.show("/")
        return site

    def log_in(self, token: str) -> None:
        """Let the browser repeat a login, as after its own dialog."""
        login = b64encode(f"operator:{token}".encode()).decode()
        self.page.set_extra_http_headers({"Authorization": f"Basic {login}"})

    def show(self, path: str) -> None:
        self.page.goto(f"{self.address}{path}")

    def card(self, *texts: str) -> Locator:
        """Wait for the card of a state on the overview; it is above everything else."""
        if self.page.url != f"{self.address}/":
            self.show("/")
        found = self.page.locator("article")
        for text in texts:
            found = found.filter(has_text=text)
        found.first.wait_for()
        box, figures = found.first.bounding_box(), self.page.locator("dl.facts").first.bounding_box()
        assert box is not None
        assert figures is not None
        assert box["y"] < figures["y"]
        return found.first

    def is_calm(self) -> bool:
        """Wait until the overview says that nothing is wrong."""
        self.show("/")
        self.page.get_by_text(CALM).wait_for()
        return True

    def act(self, place: Locator | Page, button: str) -> str:
        """Press a button, confirm its effect, and return the answer."""
        pressed = place.get_by_role("button", name=button)
        typed = pressed.get_attribute("data-typed")
        pressed.click()
        if typed is not None:
            self.page.fill("#ask-name", typed)
        self.page.click("#ask-yes")
        self.page.get_by_role("button", name="Close").wait_for()
        answer = self.page.inner_text("#ask-answer")
        self.page.click("#ask-no")
        return answer

    def runbook(self, card: Locator) -> str:
        """Follow the link of a card to its runbook; return the heading that the browser shows."""
        card.get_by_role("link", name="Runbook").click()
        heading = self.page.locator(":target")
        heading.wait_for()
        return heading.inner_text()
