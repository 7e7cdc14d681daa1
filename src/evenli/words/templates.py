"""Templates: sentences with an open slot, which word meets which of them, and what a sentence gives away."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise

from evenli.core.errors import InputError

SLOT = "[Sub]"
"""Where a template takes its word."""
UNSPACED = ("ja", "zh")
"""Languages that write no spaces between words."""
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def fill(template: str, word: str) -> str:
    """Put a word into every slot of a template."""
    return template.replace(SLOT, word)


def slot_word(template: str | None, sentence: str) -> str:
    """What stands in the slot of a template; empty where the sentence is not made from it.

    >>> slot_word("the [Sub] waves.", "the man waves."), slot_word("the [Sub] waves.", "a man waves.")
    ('man', '')
    """
    before, slot, after = (template or "").partition(SLOT)
    word = sentence[len(before) : len(sentence) - len(after)]
    return word if slot and sentence == before + word + after else ""


def article(word: str) -> str:
    """``a`` or ``an`` by sound, as far as spelling shows it.

    >>> [article(word) for word in ("auditor", "CEO", "MRI technician", "university clerk", "heir")]
    ['an', 'a', 'an', 'a', 'an']
    """
    first = word.partition(" ")[0]
    if first.isupper() and len(first) > 1:  # letters are read by name: an MRI
        return "an" if first[0] in "AEFHILMNORSX" else "a"
    vowel = r"hour|heir|honest|honou?r|(?!uni[^mn]|us[ei]|eu|ewe|one|once)[aeiou]"
    return "an" if re.match(vowel, first, re.IGNORECASE) else "a"


def with_article(word: str) -> str:
    """A word behind its indefinite article."""
    return f"{article(word)} {word}"


def any_of(words: Iterable[str], lang: str = "en", *, case: bool = False) -> re.Pattern[str]:
    """One of the words: anywhere where no spaces are written, else as a whole word (``man's`` but not ``man-made``)."""
    # Longest first, so that a compound wins over a word inside it.
    either = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(words, key=len, reverse=True))
    pattern = either if lang in UNSPACED else rf"(?<![\w-])(?:{either})(?![\w-])"
    return re.compile(pattern, 0 if case else re.IGNORECASE)


def looks_like(text: str, lang: str) -> bool:
    """Whether a sentence can be of a language, judged by its script alone.

    >>> looks_like("the nurse waves.", "en"), looks_like("看護師が手を振る。", "zh")
    (True, False)
    """
    han, kana = bool(_HAN.search(text)), bool(_KANA.search(text))
    return {"ja": kana or han, "zh": han and not kana}.get(lang, not han and not kana)


def leaking_words(template: str, words: Mapping[str, str], lang: str) -> list[str]:
    """Group-revealing words in a template outside its slot: by token, or by substring where no spaces are written."""
    text = unicodedata.normalize("NFKC", template.replace(SLOT, " ")).lower()
    for word in (word for word, group in words.items() if group == "-"):
        text = text.replace(word, " ")
    if lang in UNSPACED:
        return sorted(word for word in words if word in text)
    tokens = _WORD.findall(text)
    present = {*tokens, *(token.removesuffix("'s").removesuffix("’s") for token in tokens)}
    present |= {" ".join(pair) for pair in pairwise(tokens)}
    return sorted(present & set(words))


def deal(
    blocks: Sequence[Sequence[str]],
    templates: Sequence[str],
    width: int,
    seed: int,
    given: Mapping[str, Sequence[str]] = {},
) -> dict[str, tuple[str, ...]]:
    """Word -> its ``width`` distinct templates, balanced within every block (a class of words).

    Block by block, word by word, a word gets the templates that its block has used least so far; among these the ones
    that all blocks together have used most; ties in random order, but no set twice where ties leave a choice. So the
    numbers of words in a block that meet two templates differ by at most 1, and a block that is too small to meet all
    templates meets those of the others.

    Words of ``given`` have their templates already: these are kept, and count as used in their block.
    """
    import numpy as np  # here: the command line imports this module, and loads no numerics

    pool = list(dict.fromkeys(templates))
    if not 1 <= width <= len(pool):
        raise InputError(f"{width} templates per word need as many different templates, {len(pool)} were given")
    generator = np.random.default_rng(seed)
    dealt = {word: tuple(given[word]) for block in blocks for word in block if word in given}
    taken = set(map(frozenset, dealt.values()))
    met = Counter(template for some in dealt.values() for template in some)
    for block in blocks:
        used = Counter(template for word in dict.fromkeys(block) for template in dealt.get(word, ()))
        for word in block:
            if word in dealt:
                continue
            rank = {template: (used[template], -met[template]) for template in pool}
            order = sorted((pool[i] for i in generator.permutation(len(pool))), key=rank.__getitem__)
            last = rank[order[width - 1]]
            sure = [template for template in order if rank[template] < last]
            tied = [template for template in order if rank[template] == last]
            sets = (frozenset((*sure, *some)) for some in combinations(tied, width - len(sure)))
            chosen = next((some for some in sets if some not in taken), frozenset(order[:width]))
            dealt[word] = tuple(template for template in pool if template in chosen)
            taken.add(chosen)
            used.update(chosen)
            met.update(chosen)
    return dealt
