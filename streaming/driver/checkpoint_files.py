"""How Spark writes its own small files into a checkpoint.

By default Spark uses Hadoop's ``FileContext``. On a local disk that starts eight programs (``readlink``) for each of the three files of a
batch. Spark's other implementation renames by ``FileSystem``, which is as atomic there. It checks for an existing file in a separate step,
which is sufficient for a checkpoint with one writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SETTING: Final = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGES: Final = ("streaming", "streaming.checkpointing")
"""Where Spark 4.0 and later versions have the class."""
_CLASS: Final = "org.apache.spark.sql.execution.{}.FileSystemBasedCheckpointFileManager"


def use_file_system(spark: SparkSession) -> None:
    """Let Spark write a checkpoint on a local disk by ``FileSystem``, unless configured otherwise or unknown to this version."""
    from py4j.protocol import Py4JJavaError

    if spark.conf.get(_SETTING, None) is not None:
        return
    loader = spark._jvm.org.apache.spark.util.Utils  # type: ignore[union-attr] # noqa: SLF001 - PySpark has no other way to its JVM
    for package in _PACKAGES:
        name = _CLASS.format(package)
        try:
            loader.classForName(name, True, False)  # noqa: FBT003 - Java's: initialize, only Spark's class loader
        except Py4JJavaError:
            continue
        spark.conf.set(_SETTING, name)
        return
