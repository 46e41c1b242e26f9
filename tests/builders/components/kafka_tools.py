"""Kafka's own commands for administrators, by the names that its distribution gives them.

Pages contain them, so the runner of pages needs them. Each is Kafka's Java program from the pinned jars.
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
    """Return a shell script for each command."""
    path = os.pathsep.join(map(str, locate_jars(read_lock("kafka"))))
    java = shlex.join([str(find_java()), "-Xmx128m", "-XX:+UseSerialGC", "-cp", path])
    return {name: f'#!/bin/sh\nexec {java} {main} "$@"\n' for name, main in PROGRAMS.items()}
