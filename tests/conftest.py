"""Settings for all tests: hypothesis has no deadline, because time on a busy machine says nothing about behaviour."""

from __future__ import annotations

from hypothesis import settings


settings.register_profile("tideline", settings(), deadline=None)
settings.load_profile("tideline")
