"""What holds for every test: hypothesis judges behaviour, not time, which on a busy machine says nothing."""

from __future__ import annotations

from hypothesis import settings


settings.register_profile("tideline", settings(), deadline=None)
settings.load_profile("tideline")
