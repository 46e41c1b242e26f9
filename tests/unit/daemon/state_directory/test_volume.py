from __future__ import annotations

import shutil
from pathlib import Path

from prometheus_client import CollectorRegistry

from daemon.state_directory.volume import VolumeCollector


def test_a_scrape_has_the_size_of_the_volume_and_what_is_left(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    registry.register(VolumeCollector(tmp_path))
    size = registry.get_sample_value("tideline_state_volume_size_bytes")
    free = registry.get_sample_value("tideline_state_volume_free_bytes")
    assert size == shutil.disk_usage(tmp_path).total
    assert free is not None
    assert 0 < free <= size


def test_a_directory_that_is_not_there_has_no_samples(tmp_path: Path) -> None:
    families = list(VolumeCollector(tmp_path / "missing").collect())
    assert [family.samples for family in families] == [[], []]
