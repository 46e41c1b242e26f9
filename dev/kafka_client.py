"""Builds the Kafka client with Kerberos (SASL GSSAPI), which the wheel of the package index does not have.

The client is librdkafka and its Python module. The source of librdkafka is part of an npm package, which this
module pins; ``requirements/kafka.txt`` pins the Python module for the same librdkafka. Change both together.
Building the image uses this module; also run it on a machine without the image whose brokers require
Kerberos. On Debian, building needs ``g++ gcc make pkg-config libsasl2-dev libssl-dev libcurl4-openssl-dev
libzstd-dev zlib1g-dev``, and running needs ``krb5-user libsasl2-modules-gssapi-mit``. ::

    python -m dev.kafka_client /opt/kafka
    export PYTHONPATH=/opt/kafka/python
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from dev.stack.downloads.npm import Package, fetch_package


LIBRDKAFKA: Final = Package(
    "@confluentinc/kafka-javascript",
    "1.10.1",
    "ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66",
)
"""The package with the source of librdkafka 2.15.1."""
SOURCE: Final = "package/deps/librdkafka"
LOCK: Final = Path(__file__).parents[1] / "requirements" / "kafka.txt"
OPTIONS: Final = ("--enable-gssapi", "--enable-ssl", "--disable-lz4-ext")


def build(prefix: Path) -> None:
    """Build librdkafka and install it below ``prefix``, and its Python module in ``prefix/python``.

    The environment of this Python must have the packages of ``requirements/build.txt``.
    """
    with tempfile.TemporaryDirectory() as directory:
        _build_library(prefix, Path(directory))
    environment = os.environ | {
        "CPATH": f"{prefix}/include",
        "LIBRARY_PATH": f"{prefix}/lib",
        "LDFLAGS": f"-Wl,-rpath,{prefix}/lib",
    }
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-cache-dir",
        "--no-deps",
        "--require-hashes",
    ]
    from_source = ["--no-build-isolation", "--no-binary", "confluent-kafka"]
    place = ["--upgrade", "--target", str(prefix / "python"), "--requirement", str(LOCK)]
    subprocess.run([*pip, *from_source, *place], env=environment, check=True)


def _build_library(prefix: Path, directory: Path) -> None:
    with tarfile.open(fetch_package(LIBRDKAFKA)) as archive:
        members = [each for each in archive if each.name.startswith(f"{SOURCE}/")]
        # Before 3.11.4, Python has no filters. The archive is verified in any case.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(directory, members)  # noqa: S202 - a pinned checksum
    source = directory / SOURCE
    # The archive of npm does not keep all permissions.
    for script in (source / "configure", *source.glob("mklove/**/*"), source / "lds-gen.py"):
        script.chmod(0o755)
    steps = (
        ["./configure", f"--prefix={prefix}", *OPTIONS],
        ["make", f"-j{os.cpu_count()}", "-C", "src"],
        ["make", "-C", "src", "install"],
    )
    for step in steps:
        subprocess.run(step, cwd=source, check=True, stdout=subprocess.DEVNULL)
    for unused in prefix.glob("lib/*.a"):  # 60 MB
        unused.unlink()


def main() -> None:
    """Build the client into the directory that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("prefix", type=Path, help="directory of the client")
    build(parser.parse_args().prefix.resolve())


if __name__ == "__main__":
    main()
