"""When a gender word is something else: a verb, part of a compound, of a proper name or of an idiom.

Every rule gets the split text, the place of the word and its listed partner, and returns the replacement or None to
leave the word alone. Rules look at the neighbours only; no tagger is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenli.words.swap.names import in_title_case, is_capitalised, name_pairs, starts_sentence, word_at
from evenli.words.swap.pronoun_case import context, her_is_possessive, his_is_determiner, is_adjective, words

Decision = Callable[[Sequence[str], int, str], "str | None"]

TITLES = context["swapped_title"]  # words that stand before a name and still state the gender of a person
_OBJECTS = frozenset({"a", "an", "the", "his", "her", "their", "its", "our", "your"})


def neighbours(parts: Sequence[str], index: int) -> tuple[str, str]:
    """The words before and behind, in lower case, where only a space or a hyphen stands between."""
    before = word_at(parts, index - 2).lower() if parts[index - 1] in {" ", "-"} else ""
    behind = word_at(parts, index + 2).lower() if parts[index + 1] in {" ", "-"} else ""
    return before, behind


def unless_compound(parts: Sequence[str], index: int, target: str) -> str | None:
    """Leave "cowboy hat", "man-made", "queen-size bed" and "drag queen" alone."""
    word = parts[index].lower()
    before, behind = neighbours(parts, index)
    # Capitalised, "Boy Scouts" is an organisation; in lower case the scouts are boys.
    if behind in {"scout", "scouts"} and parts[index].islower():
        return target
    # Of an adjective and "man" only those of "man *" stand for no man: what is left of the word is a compound.
    return None if behind in context.get(f"{word} *", ()) or before in context.get(f"* {word}", ()) else target


def man(parts: Sequence[str], index: int, target: str) -> str | None:
    """The noun; the verb of "man the lifeboats" and the exclamation "oh man" stay."""
    before, behind = neighbours(parts, index)
    if behind in _OBJECTS and parts[index + 1] == " ":
        # "deckhands man the ropes": a plural before it is its subject.
        if before in context["before_verb"] or (before.endswith("s") and not before.endswith("ss")):
            return None
        # "Man the lifeboats!" begins a sentence; a caption such as "Man the size of a bear" is rarer.
        if starts_sentence(parts, index) and behind in {"the", "your", "their"}:
            return None
    if parts[index].istitle() and word_at(parts, index - 4) == "Isle":
        return None
    if behind in {"made", "eating"}:
        # "a man-made lake"; but "A man made a lake" and "The man eating lunch", where an article opens the sentence.
        opens = before in {"a", "the", "one", "this"} and starts_sentence(parts, index - 2)
        return target if opens and parts[index + 1] == " " else None
    return exclaimed(parts, index, target)


def exclaimed(parts: Sequence[str], index: int, target: str) -> str | None:
    """Leave "Boy, it was cold" and "Man, I was tired" alone, and the compounds."""
    if starts_sentence(parts, index) and parts[index + 1].strip() == ",":
        following = word_at(parts, index + 2).lower()
        if following in words.pronoun or following in {"it", "that", "this", "what", "there"}:
            return None
    return unless_compound(parts, index, target)


def unless_verb(parts: Sequence[str], index: int, target: str) -> str | None:
    """Leave the verb of "to groom the dog" alone: a subject or "to" before it and an object behind it."""
    following = word_at(parts, index + 2).lower() if parts[index + 1] == " " else ""
    verbal = following in _OBJECTS and word_at(parts, index - 2).lower() in {"to", "who", "and", "he", "she"}
    return None if verbal else target


def unless_before_object(parts: Sequence[str], index: int, target: str) -> str | None:
    """Leave the verb of "he mans the desk" alone; "a mans hat" lacks its apostrophe."""
    return None if neighbours(parts, index)[1] in _OBJECTS else target


def if_title(parts: Sequence[str], index: int, target: str) -> str | None:
    """Swap "Ms. Hill", but not "M&Ms are", "Miss the bus" and "Miss Universe"."""
    following = word_at(parts, index + 2)
    named = parts[index + 1] in {" ", ".", ". ", " . "} and following[:1].isupper()
    return target if named and following not in {"Universe", "World", "America", "USA"} else None


def unless_word_part(parts: Sequence[str], index: int, target: str) -> str | None:
    """Leave the *he* of "s/he" and "(s)he" alone."""
    before = word_at(parts, index - 2)
    if before == "T" and parts[index - 1] == " ":
        return None  # "T he", a capital that was set apart
    return None if before.lower() == "s" and parts[index - 1] in {"/", ")", "/ ", " /"} else target


def sir(parts: Sequence[str], index: int, target: str) -> str:
    """*Sir* is a title before a name (Dame) and an address elsewhere (madam)."""
    return "Dame" if parts[index + 1] == " " and is_capitalised(word_at(parts, index + 2)) else target


def mistress(parts: Sequence[str], index: int, target: str) -> str:
    """A mistress is a master of something, or else a lover."""
    before, behind = neighbours(parts, index)
    if behind != "of" and before != "head":
        target = "lovers" if target.lower().endswith("s") else "lover"
    return target.capitalize() if parts[index][0].isupper() else target


def pronoun(parts: Sequence[str], index: int, _: str) -> str | None:
    """*Her* becomes his or him, *his* becomes her or hers; the rest of "T[his] court" stays."""
    given = parts[index]
    if parts[index - 1] in {"]", "["} and index > 1:
        return None
    index = _last_of_repeated(parts, index)
    if given.lower() == "her":
        other = "his" if her_is_possessive(parts, index) else "him"
    else:
        other = "her" if his_is_determiner(parts, index) else "hers"
    return cased_as(given, other)


def cased_as(word: str, new: str) -> str:
    """A word in lower case, spelled with the capitals of another."""
    if word.isupper():
        return new.upper()
    return new.capitalize() if word[0].isupper() else new


def _last_of_repeated(parts: Sequence[str], index: int) -> int:
    """Where a speaker repeats himself ("her her father", "get her get her a bag") the last one decides for all."""
    word = parts[index].lower()
    while word_at(parts, index + 2).lower() == word and parts[index + 1].isspace():
        index += 2
    before, behind = neighbours(parts, index)
    if before and before == behind and word_at(parts, index + 4).lower() == word:
        return _last_of_repeated(parts, index + 4)
    return index


def _stands_as_name(parts: Sequence[str], index: int, before: str, behind: str) -> bool:
    """True for a bare capitalised "King", "Duke" or "Godfather" without an article: a surname, a team, a film."""
    word = parts[index]
    if word in {"Brotherhood", "Sisterhood", "Godfather"}:
        return not starts_sentence(parts, index)
    if word in {"Sisters", "Brothers", "Sons", "Daughters"} and behind == "of":
        return is_capitalised(word_at(parts, index + 4))
    if parts[index - 1] == "-" and word_at(parts, index - 2) == "au":
        return True  # "Port-au-Prince"
    if word not in {"King", "Queen", "Prince", "Duke", "Monk", "Abbot"} or is_capitalised(behind):
        return False
    if starts_sentence(parts, index):
        return behind in words.auxiliary or behind in context["person_verb"] or behind in words.past
    return before != "" and before.islower() and before not in words.determiner and not is_adjective(before)


def in_proper_name(parts: Sequence[str], index: int) -> bool:
    """True for a capitalised gender word inside a name: "Warner Brothers", "Boy Scouts", "Valley of the Kings".

    Where every word is capitalised, as in a headline, capitals say nothing. A word that begins a sentence is
    capitalised for that reason. A title before a name ("King Charles", "Mr. Hill") is none of these.
    """
    word = parts[index]
    if not is_capitalised(word):
        return False
    before = word_at(parts, index - 2) if parts[index - 1] in {" ", " & ", " and "} else ""
    behind = word_at(parts, index + 2) if parts[index + 1] in {" ", "-", "'s ", " & "} else ""
    possessed = parts[index + 1] in {"'", "’"} and parts[index + 2 : index + 4] == ["s", " "]
    if possessed:
        behind = word_at(parts, index + 4)  # "Queen's University"
    if in_title_case(parts):
        return behind in words.place_tail and word in TITLES
    if word.lower() in context["office"] or word in {"He", "She"}:
        return False  # "State Democratic Chairman Herman Hill", "Vice Chairman"
    if _stands_as_name(parts, index, before, behind):
        return True
    if starts_sentence(parts, index):
        if behind in words.place_tail and word in TITLES:
            return True
        return is_capitalised(behind) and word.lower() in context["in_names"]
    if behind in words.place_tail and not possessed:
        return True  # "King Street"
    if word in TITLES and is_capitalised(behind) and not possessed:
        return False
    # A surname: "Stephen King", but "First Lady" and "Former King".
    firm = word in {"Brothers", "Sisters", "Sons"}
    if is_capitalised(before) and before not in words.small_word and (firm or not starts_sentence(parts, index - 2)):
        return before not in {"First", "Former", "Crown"}
    if before in name_pairs() and word in {"King", "Prince", "Guy", "Queen", "Duke", "Monk", "Abbot", "Lord"}:
        return True
    inside = is_capitalised(behind) and behind not in words.small_word
    return inside or word in {"Kings", "Queens", "Princes", "Dukes", "Craftsman"}


def possessive(parts: Sequence[str], index: int, target: str) -> list[tuple[int, str]]:
    """What else changes where one plural ends in s and the other does not: "gentlemen's" and "ladies'"."""
    word = parts[index]
    ours, theirs = word[-1:].lower() == "s", target[-1:].lower() == "s"
    if ours == theirs or index + 1 >= len(parts) or parts[index + 1][:1] not in {"'", "’"}:
        return []
    if _PLURALS.isdisjoint({target.lower(), word.lower()}):
        return []
    mark, behind = parts[index + 1], word_at(parts, index + 2)
    if theirs and mark in {"'", "’"} and behind == "s":
        return [(index + 2, "")]
    # "the ladies' room", but not the quotation 'for ladies' that ends there.
    if ours and len(mark) > 1 and mark[1] == " " and behind[:1].islower() and "‘" not in parts[0]:
        return [(index + 1, f"{mark[0]}s{mark[1:]}")]
    return []


_PLURALS = frozenset({"ladies", "gentlemen", "bridesmaids", "groomsmen", "barmaids", "barmen"})


def decisions() -> dict[str, Decision]:
    """The rule of every word that has one, in the spellings of the text."""
    rules: dict[str, Decision] = dict.fromkeys((kind.strip("* ") for kind in context if "*" in kind), unless_compound)
    rules |= {"man": man, "boy": exclaimed, "he": unless_word_part, "mans": unless_before_object}
    rules |= dict.fromkeys(("groom", "grooms"), unless_verb) | dict.fromkeys(("mistress", "mistresses"), mistress)
    cased = {case(word): rule for word, rule in rules.items() for case in (str, str.capitalize, str.upper)}
    cased |= dict.fromkeys(("her", "Her", "HER", "his", "His", "HIS"), pronoun)
    return cased | {"Miss": if_title, "Ms": if_title, "Sir": sir}
