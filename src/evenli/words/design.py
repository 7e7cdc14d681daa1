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
    that all blocks together have used most; ties in random order, but no set twice where ties leave a choice. So the
    numbers of words in a block that meet two templates differ by at most 1, and a block that is too small to meet all
    templates meets those of the others.

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
