"""Detached signatures with SSH keys; ``ssh-keygen -Y`` of OpenSSH makes and checks them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from evenli.core.errors import InputError, RunError
from evenli.core.format import printable, shortened

NAMESPACE = "evenli"
"""What a signature is for: one that was made for something else, such as a commit, does not count."""
_ARMOUR = re.compile(rb"-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/=]+\n)+-----END SSH SIGNATURE-----\n")


def sign(content: bytes, key: Path) -> bytes:
    """The signature of a text; ``key`` is a private key, or a public one whose private key an agent has."""
    if not key.is_file():
        raise InputError(f"no such key file: {key}")
    return _keygen(f"cannot sign with {key}", content, "sign", "-f", key)


def check_signature(content: bytes, signature: bytes, signers: Path) -> str:
    """Who signed a text: the name in the file of allowed signers, and the key. Any other signature is refused."""
    if not signers.is_file():
        raise InputError(f"no such file of allowed signers: {signers}")
    # ssh-keygen would skip some characters between the lines.
    if not _ARMOUR.fullmatch(signature):
        raise RunError("the signature is damaged: it is no SSH signature")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        given = ("-f", signers, "-s", file)
        named = _keygen(f"nobody in {signers} has made the signature", b"", "find-principals", *given)
        name = named.decode("utf-8", "replace").splitlines()[0]
        said = _keygen("the signature is wrong", content, "verify", *given, "-I", name)
    return printable(said.decode("utf-8", "replace").strip().partition(" signature for ")[2])


def _keygen(failed: str, given: bytes, action: str, *words: str | Path) -> bytes:
    namespace = () if action == "find-principals" else ("-n", NAMESPACE)
    try:
        done = subprocess.run(
            ["ssh-keygen", "-Y", action, *map(str, words), *namespace], input=given, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise RunError("signatures need ssh-keygen, which is a part of OpenSSH; it was not found") from error
    if done.returncode:
        said = " ".join((done.stderr + done.stdout).decode("utf-8", "replace").split())
        raise RunError(f"{failed} (ssh-keygen: {printable(shortened(said))})")
    return done.stdout
