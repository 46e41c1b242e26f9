"""The Spark of the image with its class archive, once per session:
drivers that are killed start as in production, and in half the time.

A test module imports both fixtures. Then every driver of its tests uses this Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from streaming.driver.class_archive import NAME, VARIABLE
from tests.builders.components.spark_cluster import environment_of_image, link_spark_of_image


PREPARE_S = 1_800.0
"""It needs 86 s of processor time: 460 s were measured beside 22 other processes on two cores."""


@pytest.fixture(scope="session")
def archived_spark(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The variables with which drivers use the Spark and its archive."""
    directory = tmp_path_factory.mktemp("image")
    link_spark_of_image(directory)
    environment = {**environment_of_image(directory), VARIABLE: str(directory / NAME)}
    done = subprocess.run(
        [sys.executable, "-m", "daemon", "split", "prepare"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PREPARE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return environment


@pytest.fixture(autouse=True)
def _use_archived_spark(archived_spark: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in archived_spark.items():
        monkeypatch.setenv(name, value)
