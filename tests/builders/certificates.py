"""Certificates for tests of TLS, made by OpenSSL's command. They are valid for ``localhost`` and
127.0.0.1."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that signed itself, and so is its own authority."""

    certificate: Path
    key: Path

    def keystore(self, path: Path, password: str) -> Path:
        """Write both as a PKCS#12 keystore, which Java reads."""
        options = ["-in", str(self.certificate), "-inkey", str(self.key), "-out", str(path)]
        _openssl("pkcs12", "-export", *options, "-passout", f"pass:{password}")
        return path


def a_certificate(directory: Path, name: str) -> Certificate:
    """Make a certificate; skip the test if OpenSSL's command is not installed."""
    if shutil.which("openssl") is None:
        pytest.skip("the command openssl is not installed")
    made = Certificate(directory / f"{name}.pem", directory / f"{name}.key")
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    _openssl("req", "-x509", *kind, *files, *subject)
    return made


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
