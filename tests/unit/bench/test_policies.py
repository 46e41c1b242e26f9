"""The connections of a process, as the benchmark of many policies counts them."""

from __future__ import annotations

import os
import socket

from bench.policies import count_connections, read_port


def test_only_established_connections_to_the_port_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert count_connections(os.getpid(), port) == 0, "it only listens"
        with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            assert count_connections(os.getpid(), port) == 2
            assert count_connections(os.getpid(), port + 1) == 0
        assert count_connections(os.getpid(), port) == 0


def test_addresses_have_a_port_with_and_without_a_scheme() -> None:
    assert (read_port("thrift://127.0.0.1:9083"), read_port("localhost:9092")) == (9083, 9092)
