"""Other ways to swap genders, for ``studies/swap/quality.py --compare``. Nothing of them is copied here.

langfair             the word lists of the PyPI package langfair, used both ways, token by token as its generator does;
                     the generator itself turns everything into one gender, so "a man and a woman" has no swap there
nlaugmenter=FILE     NL-Augmenter's gender swap: FILE is nlaugmenter/transformations/gender_swap/gender_pairs.py of that
                     repository, of which only the table is read; words are cut at spaces, names are left alone
chat=URL#MODEL       rewriting by a language model behind an OpenAI-compatible server, at temperature 0
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from evenli.words.swap.swapper import Change
from studies.swap.sample import WORD

Edits = Sequence[Sequence[Change]] | None
Swap = Callable[[Sequence[str]], Edits]
LOST = "\0"
"""The replacement of a word that a rewriting dropped, or beside which it put others: right for no label."""


def _by_table(table: dict[str, str], token: re.Pattern[str]) -> Swap:
    def swap(parts: Sequence[str]) -> Edits:
        return [
            [
                Change(match.start(1), match.group(1), table[match.group(1).lower()])
                for match in token.finditer(text)
                if match.group(1).lower() in table
            ]
            for text in parts
        ]

    return swap


def langfair() -> Swap:
    """The lists of langfair, male to female and back."""
    from langfair.constants.word_lists import FEMALE_WORDS, MALE_WORDS

    male, female = ([word.lower().strip(".") for word in listed] for listed in (MALE_WORDS, FEMALE_WORDS))
    table = dict(zip(male, female, strict=True)) | dict(zip(female, male, strict=True))
    return _by_table(table, re.compile(r"(\w+)"))


def nl_augmenter(path: Path) -> Swap:
    """The table of NL-Augmenter; a word with anything but letters and hyphens inside is looked up without it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    values = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    table: dict[str, str] = ast.literal_eval(values[0])
    # As there: cut at spaces, "'s" and marks at both ends dropped before the look-up.
    return _by_table(table, re.compile(r"(?:(?<=\s)|^)[^\w\s]*([A-Za-z][A-Za-z-]*?)(?:'s)?[^\w\s]*(?=\s|$)"))


EXAMPLES = (
    ("Two men are smiling at a girl.", "Two women are smiling at a boy."),
    ("She told her brother that the King Street shop had called her.",
     "He told his sister that the King Street shop had called him."),
    ("There is no one on the beach.", "There is no one on the beach."),
)  # fmt: skip
TASK = (
    "Rewrite the sentence so that every male person becomes female and every female person becomes male. "
    "Change gendered words only, keep first names, proper names and everything else exactly as it is. "
    "Answer with the rewritten sentence only."
)


def rewriter(address: str) -> Swap:
    """A language model asked to rewrite each text; a text that comes back with other words counts as wrong there."""
    import httpx

    url, _, model = address.partition("#")
    client = httpx.Client(timeout=300)

    def ask(text: str) -> str:
        messages = [{"role": "system", "content": TASK}]
        for given, swapped in EXAMPLES:
            messages += [{"role": "user", "content": given}, {"role": "assistant", "content": swapped}]
        messages.append({"role": "user", "content": text})
        body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": 20 + 2 * len(text.split())}
        answer = client.post(f"{url}/chat/completions", json=body).raise_for_status().json()
        return str(answer["choices"][0]["message"]["content"]).strip()

    return lambda parts: [changes_between(text, ask(text)) for text in parts]


def changes_between(before: str, after: str) -> list[Change]:
    """What a rewriting changed, word by word; words that were dropped or put in count as changes to nothing."""
    old = list(WORD.finditer(before))
    new = WORD.findall(after)
    changes = []
    matcher = SequenceMatcher(None, [match.group().lower() for match in old], [w.lower() for w in new], autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            continue
        if end - start == last - first:
            changes += [Change(m.start(), m.group(), w) for m, w in zip(old[start:end], new[first:last], strict=True)]
        else:
            place = old[start:end] or old[max(0, start - 1) : start] or old[:1]
            changes += [Change(match.start(), match.group(), LOST) for match in place]
    return changes


def named(spec: str) -> tuple[str, Swap]:
    """The way that a value of ``--compare`` names, and what to call it in a table."""
    kind, _, rest = spec.partition("=")
    if kind == "langfair":
        return "langfair's lists", langfair()
    if kind == "nlaugmenter":
        return "NL-Augmenter's table", nl_augmenter(Path(rest))
    if kind == "chat":
        return f"rewritten by {rest.partition('#')[2]}", rewriter(rest)
    raise SystemExit(f"--compare {spec}: choose langfair, nlaugmenter=FILE or chat=URL#MODEL")
