"""Results in a model card that exists: as metadata of the hub, and as a section of the text.

Reading, merging and writing the metadata is left to ``huggingface_hub``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenli.errors import EvenliError, InputError, RunError
from evenli.evaluate.audit import Audit, load_run
from evenli.io import read_text, write_atomic
from evenli.report.card import SOURCE, eval_results, section, suite_of

LIMIT = 16 << 20
"""Largest card that is read, in bytes."""


def merge_card(run: Audit | str | Path, file: str | Path) -> None:
    """Write the results of a run into the card ``file``, which is made where it is missing.

    What evenli wrote about the same pairs earlier is replaced; everything else stays. Comments in the YAML part are
    lost, because the hub's library does not keep them.
    """
    audit, file = run if isinstance(run, Audit) else load_run(run), Path(file)
    text = read_text(file, limit=LIMIT) if file.exists() else ""
    write_atomic(file, merged(audit, text, str(file)))


def push_card(run: Audit | str | Path, repository: str) -> str:
    """Propose the results of a run for the card of a model on the hub, as a pull request; returns its address."""
    from huggingface_hub import ModelCard, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    audit = run if isinstance(run, Audit) else load_run(run)
    message = f"Add the results of an evenli audit ({suite_of(audit)})"
    try:
        with _quiet():
            try:
                text = read_text(Path(hf_hub_download(repository, "README.md")), limit=LIMIT)
            except EntryNotFoundError:
                text = ""
            card = ModelCard(merged(audit, text, f"the card of {repository}"), ignore_metadata_errors=True)
            return str(card.push_to_hub(repository, commit_message=message, create_pr=True))
    except EvenliError:
        raise
    except Exception as error:  # no network, no token, no such repository: each has a class of its own
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise RunError(f"cannot write to {repository} on the hub ({reason}); log in with `hf auth login`") from error


def merged(audit: Audit, text: str, name: str) -> str:
    """The text of a card with the results of an audit in it."""
    from huggingface_hub import ModelCard

    try:
        with _quiet():
            card = ModelCard(text)
    except Exception as error:  # YAML that cannot be read, or a model index that is none
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{name}: its metadata cannot be read ({reason}); mend the part between the --- lines"
        ) from error
    about: Any = card.data
    ours = eval_results(audit)
    if ours:
        about.model_name = about.get("model_name") or audit.result.model.name
        about.eval_results = [*(one for one in about.get("eval_results") or [] if not _replaced(one, ours[0])), *ours]
    card.text = _with_section(card.text, section(audit), _mark(audit), name)
    return str(card)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep remarks of the hub's library about a card off the terminal; what matters is raised."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _replaced(old: Any, new: Any) -> bool:
    """Whether a result is an older one of ours on the same pairs."""
    same = ("dataset_type", "dataset_name", "dataset_config", "dataset_split")
    return old.source_url == SOURCE and all(getattr(old, name) == getattr(new, name) for name in same)


def _mark(audit: Audit) -> str:
    """Names a section, so that a later audit on the same pairs replaces it."""
    card = audit.result.data_of(suite_of(audit))
    parts = (suite_of(audit), audit.result.lang or "", card.name if card else "")
    return re.sub(r"[^\w]+", "-", " ".join(parts)).strip("-")


def _with_section(text: str, new: str, mark: str, name: str) -> str:
    begin, end = f"<!-- evenli {mark} begin -->", f"<!-- evenli {mark} end -->"
    block = f"{begin}\n{new.strip()}\n{end}"
    if begin not in text:
        return f"{text.rstrip()}\n\n{block}\n".lstrip("\n")
    before, _, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not closing:
        raise InputError(f"{name}: '{begin}' has no '{end}' after it; take the old section out and try again")
    return f"{before}{block}{after}"
