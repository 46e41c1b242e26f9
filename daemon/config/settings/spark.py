"""The section ``spark`` of flat tables and copy jobs: the driver, a child process, and its executors."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from daemon.config.fields import SparkOptions
from daemon.config.section import Section, matching, setting
from streaming.settings import SparkSettings


Memory = Annotated[
    str,
    matching(
        r"(?a)[1-9]\d{0,5}[kmgt]", "must be a size of memory: a whole number and k, m, g or t, such as 2g"
    ),
]


def to_java(value: str | float | bool) -> str:
    """Return a setting in the form that Java programs read."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class SparkConfig(Section):
    """The Spark driver, a child process of the daemon, and its executors."""

    master: Annotated[
        str,
        matching(
            r"(?a)local(\[(\d{1,4}|\*)(,\d{1,3})?\])?|yarn|k8s://\S+|spark://\S+",
            "must be a Spark master: local[N], yarn, k8s://HOST:PORT or spark://HOST:PORT",
        ),
    ] = setting(SparkSettings, "master")
    driver_memory: Memory = setting(SparkSettings, "driver_memory")
    executor_memory: Memory | None = Field(default=None, description="Heap of an executor's JVM.")
    executor_cores: int | None = Field(default=None, ge=1, le=256, description="Cores of an executor.")
    executors: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Number of executors; by default Spark decides, and uses all available ones on "
        "'spark://'. Without executor_cores, an executor on 'spark://' has one core.",
    )
    jars: list[Annotated[str, Field(min_length=1, max_length=4_096)]] = Field(
        default=[],
        max_length=64,
        description="Jars for Spark, such as its Kafka connector if the image lacks it.",
    )
    conf: SparkOptions = Field(
        default={},
        description="Further Spark settings; they take precedence over all others.",
    )

    def value(self) -> SparkSettings:
        """Return the settings as the driver takes them."""
        bounds = {
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": self.executor_cores,
            "spark.executor.instances": self.executors,
        }
        if self.executors is not None and self.master.startswith("spark://"):
            # A standalone cluster has no setting for the number of executors: it starts them until their
            # cores reach this number.
            cores = self.executor_cores or 1
            bounds |= {"spark.executor.cores": cores, "spark.cores.max": self.executors * cores}
        resources = {name: str(value) for name, value in bounds.items() if value is not None}
        own = {name: to_java(value) for name, value in self.conf.items()}
        return SparkSettings(self.master, self.driver_memory, tuple(self.jars), resources | own)
