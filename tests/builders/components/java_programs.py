"""Commands of Kafka and Hadoop, by the names that their distributions give them.

Pages contain them, so the runner of pages needs them. Each is the project's own Java program from the pinned
jars.
"""

from __future__ import annotations

import os
import shlex
from typing import Final

from dev.stack.downloads.jars import locate_jars, read_lock
from dev.stack.process.java_runtime import find_java


PROGRAMS: Final = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
}


def kafka_programs() -> dict[str, str]:
    """Return a shell script for each command of Kafka."""
    return {name: _script("kafka", f'{main} "$@"') for name, main in PROGRAMS.items()}


def hdfs_program() -> dict[str, str]:
    """Return a shell script for ``hdfs dfs``, which reads and writes all file systems of Hadoop, and the
    configuration that it requires beside it."""
    shell = _script("hive", 'org.apache.hadoop.fs.FsShell "${@:2}"')
    return {"hdfs": shell, "core-site.xml": "<configuration/>\n"}


def _script(lock: str, main: str) -> str:
    path = os.pathsep.join(map(str, locate_jars(read_lock(lock))))
    java = shlex.join([str(find_java()), "-Xmx128m", "-XX:+UseSerialGC"])
    return f'#!/bin/bash\nexport CLASSPATH={shlex.quote(path)}:"${{0%/*}}"\nexec {java} {main}\n'
