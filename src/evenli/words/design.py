"""Which word meets which sentences: classes of words meet the same ones, each equally often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from evenli.core.errors import InputError


def deal(
    blocks: Sequence[Sequence[str]],
    templates: Sequence[str],
    width: int,
    seed: int,
    given: Mapping[str, Sequence[str]] = {},
) -> dict[str, tuple[str, ...]]:
    """Word -> its ``width`` distinct templates, balanced within every block (a class of words).

    Block by block, word by word, a word gets the templates that its block has used least so far; among these the ones
    that other blocks have used most, and then in random order. So the numbers of words in a block that meet two
    templates differ by at most 1, and a block that is too small for all templates meets those of the others. Two words
    get the same set of templates only where every set that is least used is taken.

    Words of ``given`` have their templates already: these are kept, and count as used in their block.
    """
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
            shuffled = (pool[i] for i in generator.permutation(len(pool)))
            order = sorted(shuffled, key=lambda template: (used[template], -met[template]))
            most = used[order[width - 1]]
            sure = [template for template in order if used[template] < most]
            tied = [template for template in order if used[template] == most]
            sets = (frozenset((*sure, *some)) for some in combinations(tied, width - len(sure)))
            chosen = next((some for some in sets if some not in taken), frozenset(order[:width]))
            dealt[word] = tuple(template for template in pool if template in chosen)
            taken.add(chosen)
            used.update(chosen)
            met.update(chosen)
    return dealt
