"""Dealing templates to words: balance within a class, distinctness, seeds, and what cannot be avoided."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenli.core.errors import InputError
from evenli.words.templates import deal


def words(*sizes: int) -> list[list[str]]:
    return [[f"{block}-{k}" for k in range(size)] for block, size in enumerate(sizes)]


def texts(count: int) -> list[str]:
    return [f"[Sub] {k}" for k in range(count)]


def uses(dealt: dict[str, tuple[str, ...]], block: list[str], templates: list[str]) -> list[int]:
    counts = Counter(template for word in block for template in dealt[word])
    return [counts[template] for template in templates]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
    st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))),
    st.integers(0, 99),
)
def test_every_class_meets_every_template_equally_often(sizes: list[int], shape: tuple[int, int], seed: int) -> None:
    blocks, templates, width = words(*sizes), texts(shape[0]), shape[1]
    dealt = deal(blocks, templates, width, seed)
    assert list(dealt) == [word for block in blocks for word in block]
    assert all(len(set(some)) == len(some) == width for some in dealt.values())
    for block in blocks:
        met = uses(dealt, block, templates)
        assert sum(met) == width * len(block) and max(met) - min(met) <= 1
    assert dealt == deal(blocks, templates, width, seed)


def test_the_seed_decides() -> None:
    dealt = [deal(words(5, 5), texts(30), 3, seed) for seed in range(20)]
    assert len({tuple(some.values()) for some in dealt}) == 20


def test_no_two_words_get_the_same_templates() -> None:
    dealt = deal(words(13, 87, 500), texts(260), 10, 0)
    assert len(set(dealt.values())) == 600
    assert set(deal(words(4, 3), texts(3), 3, 0).values()) == {tuple(texts(3))}  # nothing else is possible


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 25), min_size=1, max_size=3), st.integers(2, 7), st.integers(1, 3), st.integers(0, 99))
def test_a_set_is_dealt_twice_only_where_nothing_else_is_possible(
    sizes: list[int], count: int, width: int, seed: int
) -> None:
    blocks, templates, width = words(*sizes), texts(count), min(width, count)
    dealt = deal(blocks, templates, width, seed)
    met: Counter[str] = Counter()
    taken: set[frozenset[str]] = set()
    for block in blocks:
        used: Counter[str] = Counter()
        for word in block:
            # Every set whose templates are used least in the block, and most in all blocks.
            costs = {
                some: sorted((used[template], -met[template]) for template in some)
                for some in map(frozenset, combinations(templates, width))
            }
            possible = {some for some, cost in costs.items() if cost == min(costs.values())}
            chosen = frozenset(dealt[word])
            assert chosen in possible
            assert chosen not in taken or taken >= possible
            taken.add(chosen)
            used.update(chosen)
            met.update(chosen)


@pytest.mark.parametrize("sizes", [(5, 3, 8), (1, 40, 2), (30, 30, 30), (13, 87, 171), (2, 2)])
def test_small_classes_meet_the_sentences_of_the_others(sizes: tuple[int, ...]) -> None:
    blocks, templates = words(*sizes), texts(260)
    dealt = deal(blocks, templates, 10, 0)
    met = [{template for word in block for template in dealt[word]} for block in blocks]
    assert [len(some) for some in met] == [min(260, 10 * size) for size in sizes]
    # Of two classes the smaller one meets only what the larger meets.
    assert all(first <= second or second <= first for first, second in combinations(met, 2))


def test_templates_that_words_have_already_count_as_used() -> None:
    templates = texts(6)
    held = {"0-0": templates[:3], "0-1": templates[:3], "1-0": ["of another list"], "nobody": templates[3:]}
    dealt = deal(words(3, 2), templates, 3, 0, held)
    assert dealt["0-0"] == dealt["0-1"] == tuple(templates[:3]) and dealt["1-0"] == ("of another list",)
    assert dealt["0-2"] == tuple(templates[3:])  # the ones that its class lacks
    assert "nobody" not in dealt and len(set(dealt["1-1"])) == 3


def test_repeated_templates_are_one_and_a_word_is_dealt_once() -> None:
    assert deal([["a", "a"], ["a", "b"]], ["x", "x", "y"], 1, 0).keys() == {"a", "b"}
    with pytest.raises(InputError, match="3 templates per word need as many different templates, 2 were given"):
        deal([["a"]], ["x", "x", "y"], 3, 0)
    with pytest.raises(InputError, match="0 templates per word"):
        deal([["a"]], ["x"], 0, 0)
