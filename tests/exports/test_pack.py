"""An evidence pack says what an auditor asks, is the same every time, and no changed byte in it passes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import evenli
from evenli.core.errors import EvenliError, InputError, RunError
from evenli.core.io import json_text
from evenli.core.store import with_hash
from evenli.exports import signature
from evenli.exports.evidence import MANIFEST, SIGNATURE, evidence
from evenli.exports.guide import PARTS
from evenli.exports.verify import VerifiedPack, verify

for _module in ("altair", "vl_convert"):
    pytest.importorskip(_module)
needs_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
DATE = "1700000000"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "biased"
    evenli.audit("fake:biased", limit=60, suites=("labour",), out=folder)
    return folder


def key_of(folder: Path, name: str) -> Path:
    """A new key, and a file of allowed signers with it alone."""
    key = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key], check=True)
    public = " ".join(key.with_suffix(".pub").read_text().split()[:2])
    (folder / f"{name}.allowed").write_text(f"{name}@example.org {public}\n")
    return key


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "mallory"):
        key_of(folder, name)
    return folder


@pytest.fixture(scope="module")
def signed(run: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("packs") / "pack"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", DATE)
        evidence([run], out, keys / "alice")
    return out


@pytest.fixture
def pack(signed: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(signed, tmp_path / "pack"))


def flip(file: Path, place: int, bit: int = 0) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1 << bit
    file.write_bytes(content)


def rewrite_manifest(pack: Path, *changed: str) -> None:
    """What a forger without the key would do: every hash fits again."""
    manifest = json.loads((pack / MANIFEST).read_text(encoding="utf-8"))
    for name in changed:
        content = (pack / name).read_bytes()
        manifest["files"][name] = {"sha256": sha256(content).hexdigest(), "size": len(content)}
    (pack / MANIFEST).write_text(json_text(with_hash(manifest)), encoding="utf-8")


@needs_keygen
def test_a_signed_pack_verifies_as_folder_and_as_zip(signed: Path, keys: Path) -> None:
    allowed = keys / "alice.allowed"
    for path in (signed, signed.with_name("pack.zip")):
        checked = verify(path, allowed)
        assert isinstance(checked, VerifiedPack)
        assert checked.signer.startswith("alice@example.org with ED25519 key SHA256:")
        assert (
            (checked.files, checked.pages) == (10, 5)
            and checked.decisions == {"runs/biased": False}
            and checked.created[:4] == "2023"
        )
        assert [part.run for part in checked.runs] == ["runs/biased"] and checked.runs[0].numbers > 40
    unchecked = verify(signed)
    assert isinstance(unchecked, VerifiedPack) and (unchecked.signer, unchecked.signed) == ("", True)
    assert "not checked" in unchecked.lines()[-1] and VerifiedPack.from_dict(unchecked.to_dict()) == unchecked


@needs_keygen
def test_a_flipped_byte_is_found_in_every_file(signed: Path, pack: Path, keys: Path) -> None:
    names = sorted(file.relative_to(signed).as_posix() for file in signed.rglob("*") if file.is_file())
    assert len(names) == 12
    for number, name in enumerate(names):
        size = (signed / name).stat().st_size
        for place in (0, number * 7919 % size, size - 1):
            flip(pack / name, place, number % 8)
            with pytest.raises(EvenliError):
                verify(pack, keys / "alice.allowed")
            shutil.copyfile(signed / name, pack / name)
    assert verify(pack, keys / "alice.allowed").to_dict()["files"] == 10  # the control: nothing is left of it


def test_the_manifest_guards_itself_without_a_signature(signed: Path, pack: Path) -> None:
    size = (signed / MANIFEST).stat().st_size
    for place in range(0, size, 61):
        flip(pack / MANIFEST, place)
        with pytest.raises(EvenliError):
            verify(pack)
        shutil.copyfile(signed / MANIFEST, pack / MANIFEST)


@needs_keygen
def test_every_byte_of_a_signature_counts(signed: Path, keys: Path) -> None:
    text, stored = (signed / MANIFEST).read_bytes(), (signed / SIGNATURE).read_bytes()
    assert signature.check_signature(text, stored, keys / "alice.allowed")
    ends = [place for place, byte in enumerate(stored) if byte == 10]
    for place in [*ends, *range(0, len(stored), 29)]:
        changed = bytes([*stored[:place], stored[place] ^ 1, *stored[place + 1 :]])
        with pytest.raises(RunError, match="signature"):
            signature.check_signature(text, changed, keys / "alice.allowed")


def test_a_missing_and_an_extra_file_are_found(signed: Path, pack: Path) -> None:
    for file in sorted(file for file in pack.rglob("*") if file.is_file() and file.name != SIGNATURE):
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(EvenliError, match=file.name if file.name != MANIFEST else "run"):
            verify(pack)
        file.write_bytes(content)
    extra = pack / "runs" / "biased" / "more.txt"
    extra.write_text("x")
    with pytest.raises(RunError, match="more.txt"):
        verify(pack)
    extra.unlink()
    extra.symlink_to(signed / "README.md")
    with pytest.raises(RunError, match="link"):
        verify(pack)


def test_numbers_are_scored_again(pack: Path) -> None:
    """Every hash is right: the forger has changed a result, its hash in run.json and the manifest."""
    from evenli.audit.predictions import RunFolder

    folder = RunFolder(pack / "runs" / "biased")
    results = json.loads(folder.results_file.read_text(encoding="utf-8"))
    results["labour"]["measures"]["coal"]["value"] = 0.01
    folder.write_results(results, folder.header() or {})
    rewrite_manifest(pack, "runs/biased/results.json", "runs/biased/run.json")
    with pytest.raises(RunError, match="coal"):
        verify(pack)


def test_the_gate_decides_again(pack: Path) -> None:
    file = pack / "runs" / "biased" / "gate.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    assert stored["decision"]["passed"] is False and stored["policy"]["name"] == "standard"
    for changed in (
        {**stored, "decision": {**stored["decision"], "passed": True}},
        {**stored, "policy": {**stored["policy"], "clause": stored["policy"]["clause"][:1]}},
    ):
        file.write_text(json_text(changed), encoding="utf-8")
        rewrite_manifest(pack, "runs/biased/gate.json")
        with pytest.raises(RunError, match="gate.json"):
            verify(pack)


@pytest.mark.parametrize("name", ["README.md", "data.json", "runs/biased/card.md", "runs/biased/model.cdx.json"])
def test_pages_that_do_not_follow_from_the_runs_are_found(
    pack: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pack / name).write_text((pack / name).read_text(encoding="utf-8").replace("female", "nobody"), encoding="utf-8")
    rewrite_manifest(pack, name)
    with pytest.raises(RunError, match=name):
        verify(pack)
    monkeypatch.setattr("evenli.exports.verify.__version__", "0")  # another version may use other words
    checked = verify(pack)
    assert isinstance(checked, VerifiedPack) and checked.pages == 0 and "version" in " ".join(checked.lines())


@needs_keygen
def test_only_an_allowed_signer_counts(run: Path, signed: Path, pack: Path, keys: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"mallory.allowed has made"):
        verify(signed, keys / "mallory.allowed")
    other = signature.sign((pack / MANIFEST).read_bytes(), keys / "mallory")
    (pack / SIGNATURE).write_bytes(other)
    with pytest.raises(RunError, match=r"alice.allowed"):
        verify(pack, keys / "alice.allowed")
    command = ["ssh-keygen", "-Y", "sign", "-n", "git", "-f", keys / "alice"]
    made = subprocess.run(command, input=(pack / MANIFEST).read_bytes(), capture_output=True, check=True)
    (pack / SIGNATURE).write_bytes(made.stdout)
    with pytest.raises(RunError, match="signature is wrong"):
        verify(pack, keys / "alice.allowed")
    (pack / SIGNATURE).unlink()
    with pytest.raises(RunError, match="not signed"):
        verify(pack, keys / "alice.allowed")
    with pytest.raises(InputError, match="allowed signers"):
        verify(signed, tmp_path / "none")
    with pytest.raises(InputError, match="not an evidence pack"):
        verify(run, keys / "alice.allowed")


def test_without_ssh_keygen_there_is_one_line(
    signed: Path, run: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for use in (
        lambda: verify(signed, keys / "alice.allowed"),
        lambda: evidence([run], tmp_path / "out", keys / "alice"),
    ):
        with pytest.raises(RunError, match="ssh-keygen") as error:
            use()
        assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.zip").exists()


def test_the_same_runs_make_the_same_pack(
    run: Path, signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", DATE)
    first, second = (evidence([run], tmp_path / name) for name in "ab")
    assert first.archive.read_bytes() == second.archive.read_bytes() and not first.signed
    for name in first.files:
        same = (first.folder / name).read_bytes() == (signed / name).read_bytes()
        assert same == (name not in {"README.md", MANIFEST}), name  # the README says whether there is a signature
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000001")
    third = evidence([run], tmp_path / "c")
    differ = {name for name in third.files if (third.folder / name).read_bytes() != (first.folder / name).read_bytes()}
    assert differ == {MANIFEST}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    with pytest.raises(InputError, match="SOURCE_DATE_EPOCH"):
        evidence([run], tmp_path / "d")


def test_older_packs_are_replaced_only_when_asked(run: Path, tmp_path: Path) -> None:
    written = evidence([run], tmp_path / "pack")
    with pytest.raises(RunError, match="--overwrite"):
        evidence([run], tmp_path / "pack")
    evidence([run], tmp_path / "pack", overwrite=True)
    written.archive.write_bytes(b"mine")
    with pytest.raises(RunError, match=r"pack\.zip"):
        evidence([run], tmp_path / "pack", overwrite=True)
    assert written.archive.read_bytes() == b"mine"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    with pytest.raises(RunError, match=r"thesis\.tex"):
        evidence([run], tmp_path / "other", overwrite=True)


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", "a\\..\\out", "C:out", "."])
def test_a_zip_cannot_write_elsewhere(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(RunError, match="evil.zip"):
        verify(tmp_path / "evil.zip")
    assert [file.name for file in tmp_path.iterdir()] == ["evil.zip"] and not Path("/tmp/out").exists()


def test_damaged_and_huge_zips_are_refused(signed: Path, tmp_path: Path) -> None:
    archive = tmp_path / "pack.zip"
    content = signed.with_name("pack.zip").read_bytes()
    for text in (b"", b"text", content[: len(content) // 2]):
        archive.write_bytes(text)
        with pytest.raises(RunError, match=r"pack\.zip"):
            verify(archive)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("zeros", bytes(80 << 20))
    with pytest.raises(EvenliError, match="200 times"):
        verify(archive)


def test_a_pack_that_names_no_run_is_refused(pack: Path) -> None:
    manifest = json.loads((pack / MANIFEST).read_text(encoding="utf-8"))
    shutil.rmtree(pack / "runs")
    files = {name: about for name, about in manifest["files"].items() if not name.startswith("runs/")}
    (pack / MANIFEST).write_text(json_text(with_hash({**manifest, "files": files})), encoding="utf-8")
    with pytest.raises(RunError, match="no run"):
        verify(pack)


def test_ten_questions_have_answers_that_point_into_the_pack(signed: Path) -> None:
    text = (signed / "README.md").read_text(encoding="utf-8")
    asked = re.findall(r"^(\d+)\. \*\*(.+)\?\*\*\n    - (.+) → `(.+)`$", text, re.MULTILINE)
    assert [int(number) for number, *_ in asked] == [*range(1, 11)]
    assert all((signed / file).is_file() for *_, file in asked)
    answers = [answer for *_, answer, _ in asked]
    results = json.loads((signed / "runs" / "biased" / "results.json").read_text(encoding="utf-8"))
    assert results["model"]["fingerprint"][:16] in answers[0] and results["data"][2]["sha256"][:16] in answers[1]
    assert "female, male" in answers[2] and results["verdict"]["sentence"] in answers[3]
    decision = json.loads((signed / "runs" / "biased" / "gate.json").read_text(encoding="utf-8"))["decision"]
    failed = [check["name"] for check in decision["checks"] if check["status"] == "failed"]
    assert failed and all(name in answers[4] for name in failed)
    coal = results["labour"]["measures"]["coal"]
    assert f"[{coal['low']:.3f}, {coal['high']:.3f}]" in answers[5] and "95%" in answers[5]
    assert f"of {results['competence']['gold']['n']}" in answers[6]
    assert "evenli audit fake:biased" in answers[8] and "--limit 60" in answers[8] and "--signer" in answers[9]


def test_the_map_names_files_that_are_there_and_claims_nothing(signed: Path) -> None:
    manifest = json.loads((signed / MANIFEST).read_text(encoding="utf-8"))
    assert [row["file"] for row in manifest["where_to_find"]] == [part.file for part in PARTS]
    mapped = {file for part in PARTS for name in part.file.split(", ") for file in signed.glob(name)}
    every = {file for file in signed.rglob("*") if file.is_file()}
    assert {file.relative_to(signed).as_posix() for file in every - mapped} == {"README.md"}
    assert any("2(g) test logs" in part.ai_act_annex_iv for part in PARTS)
    assert "no claim of compliance" in (signed / "README.md").read_text(encoding="utf-8")


def test_the_cards_say_where_words_come_from(signed: Path) -> None:
    data = json.loads((signed / "data.json").read_text(encoding="utf-8"))
    assert {card["suite"] for card in data["pair_sets"]["runs/biased"]} == {"check", "labour"}
    lists = {card["name"]: card for card in data["word_lists"]}
    assert lists["labour_en.csv"]["intact"] and all(card["licence"] and card["limits"] for card in lists.values())
    components = json.loads((signed / "sbom.cdx.json").read_text(encoding="utf-8"))["components"]
    assert {"numpy", "polars", "msgspec"} <= {part["name"] for part in components}


def test_several_runs_and_a_policy_of_ones_own(run: Path, tmp_path: Path) -> None:
    even = tmp_path / "biased"  # the name of the other run
    evenli.audit("fake:even", limit=60, suites=("labour",), out=even)
    policy = tmp_path / "policy.toml"
    clause = 'name = "few"\nfail_if = "total_error > 0.3"\nreason = "too many"'
    policy.write_text(f'name = "ours"\n[[clause]]\n{clause}\n')
    written = evidence([run, even], tmp_path / "pack", policy=policy)
    checked: Any = verify(written.folder)
    assert checked.decisions == {"runs/1-biased": False, "runs/2-biased": True}
    assert "nobody signed" in checked.lines()[-1]
    text = (written.folder / "README.md").read_text(encoding="utf-8")
    assert text.count("→ `runs/1-biased/") == text.count("→ `runs/2-biased/") == 9 and "by policy ours" in text


def test_damaged_runs_and_bad_settings_make_no_pack(run: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copytree(run, tmp_path / "bad"))
    flip(bad / "results.json", 500)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: evidence([run, bad], tmp_path / "out"), "results.json"),
        (lambda: evidence([], tmp_path / "out"), "at least one"),
        (lambda: evidence([run], tmp_path / "out", policy="strict"), "no policy"),
        (lambda: evidence([run], tmp_path / "out", tmp_path / "nokey"), "key file"),
    ]
    for use, text in cases:
        with pytest.raises(EvenliError, match=text):
            use()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bad"]


@needs_keygen
def test_the_command_line(run_cli: Any, run: Path, keys: Path, tmp_path: Path) -> None:
    out = tmp_path / "pack"
    made = run_cli("evidence", run, "-o", out, "--sign", keys / "alice", "--json")
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert told["signed"] and Path(told["zip"]).is_file() and SIGNATURE in told["files"]
    checked = run_cli("verify", out, "--signer", keys / "alice.allowed")
    assert checked.returncode == 0 and "signed by alice@example.org" in checked.stdout, checked.stderr
    (out / "more").write_text("x")
    refused = run_cli("verify", out)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1 and "more" in refused.stderr
