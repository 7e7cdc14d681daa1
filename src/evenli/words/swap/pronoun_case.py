"""Is *her* a possessive (his) or an object (him)? Is *his* a determiner (her) or does it stand alone (hers)?

*Her* before nothing, punctuation or a function word is an object ("behind her", "told her that"); before any other
word it is a possessive ("her red dress"). Each exception is a construction and one function below, for example "let her
go", "made her happy", "gave her flowers", "took her home". No tagger is used, only the classes of
``pronoun_words.csv``; a few functions say of what kind an open-class word is by its ending.

A text is given as the alternation of separators and words that ``re.split`` with one group returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from evenli.words import word_classes
from evenli.words.english import plural

# In lower case, by class. Words of ``before_noun`` may stand inside a noun group all the same: "her once famous uncle".
# Of the words that are noun and verb, those of ``noun_first`` are mostly nouns behind *her*. Verbs are also classed by
# what may follow them: an infinitive (let, make), a participle (perceive), a place (move), two objects (give, bring).
words = SimpleNamespace(**word_classes("pronoun_words.csv", "class"))
context = word_classes("swap_context.csv", "class")
"""Words by class that tell what the words around them are: titles, places, verbs of people, function words."""
words.next_phrase = words.determiner | words.pronoun
words.function = words.next_phrase.union(words.auxiliary, words.preposition, words.conjunction, words.adverb)
words.time = words.date | words.time_noun
words.verb = words.noun_verb | words.pure_verb
words.give_or_bring = words.give | words.bring

_ADJECTIVE_ENDINGS = ("ful", "ous", "less")
_MODIFIER_ENDINGS = ("y", "ed", "ing", "ic", "al", "ive", "en", "ant", "ent", "ue", "ite", "ark", *_ADJECTIVE_ENDINGS)


def _third_person(verb: str) -> str:
    return verb + "es" if verb.endswith("o") else plural(verb)  # goes; else spelled as plurals are


words.noun_finite = frozenset(map(_third_person, words.noun_verb))
words.pure_finite = frozenset(map(_third_person, words.verb)) - words.noun_finite
words.finite = words.past | words.pure_finite
"""Verbs in the past or in the third person that are not also plural nouns."""
words.recipients = words.recipient.union(f"{word}s" for word in words.recipient)
"""Persons and animals that can be given something, also in the plural."""


def is_adverb(word: str) -> bool:
    """True for a word on -ly that is not known as adjective, noun or name."""
    return len(word) > 4 and word.endswith("ly") and word not in words.ly_not_adverb


def is_participle(word: str) -> bool:
    """True for a past participle: on -ed unless known as a noun, or irregular."""
    return (len(word) > 3 and word.endswith("ed") and word not in words.ed_noun) or word in words.participle


def is_adjective(word: str) -> bool:
    """True for a listed adjective or one with an ending that hardly any noun has."""
    return word in words.adjective or (len(word) > 5 and word.endswith(_ADJECTIVE_ENDINGS))


def is_modifier(word: str) -> bool:
    """True for what may stand between a possessive and its noun."""
    return is_adjective(word) or is_participle(word) or is_adverb(word)


def her_is_possessive(parts: Sequence[str], index: int) -> bool:
    """True if the *her* at ``parts[index]`` is a possessive (his), False if it is an object (him)."""
    # What a speaker says while looking for the next word is left out: "miss her uh it was".
    while index + 2 < len(parts) and parts[index + 1].isspace() and parts[index + 2].lower() in words.interjection:
        parts = [*parts[: index + 1], *parts[index + 3 :]]
    joined = _coordinated(parts, index)
    if joined is not None:
        return joined
    near = Nearby(parts, index)
    if not near.next:
        # "her's" for "hers", and compounds such as "down-on-her-luck"
        joint = parts[index + 1] if index + 2 < len(parts) else ""
        return joint == "-" or (joint in {"'", "’"} and parts[index + 2].lower() == "s")
    if near.hyphen(1):
        return True
    decisions = (rule(near, near.prev, near.next, near.next2) for rule in _HER_RULES)
    return next((decision for decision in decisions if decision is not None), True)


def his_is_determiner(parts: Sequence[str], index: int) -> bool:
    """True if the *his* at ``parts[index]`` stands before its noun (her), False if it stands alone (hers)."""
    joined = _coordinated(parts, index)
    if joined is not None:
        return joined
    near = Nearby(parts, index)
    word, after = near.next, near.next2
    if not word:
        return index + 2 < len(parts) and parts[index + 1] == "-"
    if near.hyphen(1):
        return True
    # Function words that may open a noun group: "his every move", "his then wife", "his own".
    if word in {"every", "like", "near", "down", "off", "over", "inside", "outside", "under"}:
        return not near.ends(2)
    if word in words.before_noun or word in {"then", "now", "much", "once", "very"}:
        return bool(after) and after not in words.auxiliary and after not in words.preposition
    if word in {"will", "might", "can", "own"}:
        return word == "own" or bool(near.prev)
    if word in words.function:
        return False
    if near.prev == "of" and near.prev2 and not near.noun_behind_modifiers(1):
        # "a friend of his sitting on the wall", "a cousin of his named Bob"
        noun = word in words.ing_noun or word in words.gerund_noun or word == "having"
        verbal = word.endswith("ing") and bool(after) and not noun
        return not (verbal or word in words.finite or is_participle(word))
    return True


def _partner(parts: Sequence[str], index: int, step: int) -> tuple[str, str]:
    """The joint (``/``, *or*, *and*) and the word behind it, to the left (step -1) or right (1); empty if none."""
    near, far = index + 2 * step, index + 4 * step
    if 0 < near < len(parts) and parts[index + step].strip() == "/":
        return "/", parts[near].lower()
    if 0 < near < len(parts) and 0 < far < len(parts) and parts[near].lower() in {"or", "and"}:
        between = parts[index + step] + parts[near + step]
        return (parts[near].lower(), parts[far].lower()) if not between.strip() else ("", "")
    return "", ""


def _coordinated(parts: Sequence[str], index: int) -> bool | None:
    """The partner of a pair of pronouns decides for both: "his or her bag", "him/her"."""
    joint, left = _partner(parts, index, -1)
    if (joint and left == "his") or (joint in {"/", "or"} and left == "him"):
        return left == "his" and bool(Nearby(parts, index).next)
    joint, right = _partner(parts, index, 1)
    if joint in {"/", "or"} and right in {"him", "hers", "himself", "herself"}:
        return right.endswith("self")
    if not joint or right not in words.possessive or Nearby(parts, index + (2 if joint == "/" else 4)).ends(1):
        return None
    if joint == "and" and parts[index].lower() == "her":
        # "for her and my mother" is an object; "Her and my tickets" is not
        return True if not Nearby(parts, index).prev else None
    return True


def _her_time(near: Nearby, prev: str, word: str, after: str) -> bool | None:
    """When something happened: "fired her last week", but "on her last week"."""
    if word in {"last", "next"} and (after in words.time or after == "to"):
        return prev in words.preposition and after != "to"
    if (word in words.number and after in words.time) or (word == "first" and not after):
        return prev in words.preposition
    if word in words.date:
        return prev in words.preposition or not near.ends(2)
    # "her then husband", "her now famous song", but "saw her then"
    if word in {"then", "now", "still", "once"}:
        return after in words.recipients or (is_modifier(after) and near.noun_behind_modifiers(2))
    return None


def _her_direction(near: Nearby, prev: str, word: str, after: str) -> bool | None:
    """Nouns and adjectives that are also adverbs of place: "took her home", "her home town", "on her back"."""
    if word in {"back", "home"}:
        if prev in words.preposition or (prev not in words.move and after not in words.determiner):
            return True
        return word == "home" and after in words.home_noun
    if word in {"inside", "outside", "upstairs", "downstairs", "indoors", "outdoors", "overnight"}:
        return not near.ends(2)
    # "put her right back", but "her right hand"
    if word == "right":
        return after not in words.behind_right
    if word == "down":
        return after in words.down_noun
    return None


def _her_degree(near: Nearby, prev: str, word: str, after: str) -> bool | None:
    """Numbers, degree, auxiliaries that are nouns: "her very first car", "gave her two", "against her will"."""
    if word == "very":
        return after not in {"much", "well", "hard", "little", "often", "badly", "highly", ""}
    if word in {"own", "well", "enough"}:
        return word == "own"
    if word == "every":
        return after in words.every_noun
    # Of these only *only* follows a possessive: "her only son", but "told her only that".
    if word in words.before_noun and word not in {"all", "both"}:
        opens = words.preposition | words.conjunction | words.determiner
        return word == "only" and bool(after) and after not in opens
    if word in {"more", "less", "most"}:
        return prev not in words.give and not near.ends(2)
    if word in words.number or word.isdigit():
        return prev not in words.give_or_bring and not (word == "one" and after == "of")
    if word in {"will", "might"}:
        behind = prev in words.preposition or prev == "all"
        return not after or (behind and near.ends(2))
    return after == "of" if word == "can" else None


def _her_idiom(near: Nearby, prev: str, word: str, after: str) -> bool | None:
    """Fixed phrases, and what someone is called: "called her Anna", "elected her mayor"."""
    if (word, after, near.after(3)) == ("face", "to", "face") or (prev.startswith("ke") and word == "company"):
        return False
    named = near.parts[near.index + 2][:1].isupper() and not near.shouted and word not in words.recipients
    return False if (prev in words.naming and named) or (prev in words.appoint and near.ends(2)) else None


def _her_adverb(near: Nearby, prev: str, word: str, after: str) -> bool | None:
    """Function words never follow a possessive; adverbs do only before a modifier and its noun."""
    if word in words.function:
        return False
    if not is_adverb(word):
        return None
    # "her newly painted house", but "saw her slowly walking"
    if is_modifier(after) or after.endswith("ing"):
        return near.noun_behind_modifiers(2)
    with_verb = prev in words.perceive or prev in words.let or prev in words.make
    return not (with_verb or near.ends(2) or near.ends(3))


def _her_verb(near: Nearby, prev: str, word: str, after: str) -> bool | None:
    """Infinitives behind let, make, see; finite verbs behind a phrase of place. None leaves it to later rules."""
    closed = near.ends(2) or after == "back"
    has_object = after in words.next_phrase
    if prev in words.let and (word in words.verb or (has_object and word not in words.recipients)):
        return False
    if word in words.verb and (prev in words.make or prev in words.perceive or prev in words.have):
        return None if _is_noun_behind(prev, word, closed, has_object) else False
    # "the man behind her laughs": the subject stands before the phrase of place.
    place = near.place
    beside = place and prev not in {"with", "by", "at"}
    is_verb = (
        (word in words.past and word not in {"left", "felt", "lay"} and (closed or place))
        or (word in words.pure_finite and (closed or place))
        or (word in words.noun_finite and (has_object or (beside and closed)))
        or (word in words.verb and beside and closed and (word not in words.noun_first or word == "watch"))
    )
    return False if is_verb else None


def _is_noun_behind(prev: str, word: str, closed: bool, has_object: bool) -> bool:
    """Whether a bare verb form may be a noun: "made her dress", "saw her dance", "had her work"."""
    # A determiner or pronoun behind the word is its object, and only verbs have one.
    if has_object:
        return False
    if prev in words.make:
        return word in words.noun_first
    if prev not in words.perceive:
        return word in words.noun_verb
    # "saw her play football" has an object without determiner; "saw her jump" has none and is no noun first of all.
    if word in {"play", "ride", "read", "eat", "drink", "sing"} and not closed:
        return False
    return word in words.noun_verb and not (closed and word not in words.noun_first)


def _her_ing(near: Nearby, prev: str, word: str, after: str) -> bool | None:
    """A word on -ing is verb form, modifier or noun: "saw her running", "her running shoes", "her singing"."""
    noun_only = word in words.ing_noun or word.endswith(("swing", "string", "thing"))
    if not word.endswith("ing") or len(word) < 5 or noun_only:
        return None
    if not near.ends(2):
        # "saw her riding horses", but "saw her riding teacher"
        seen = prev in words.perceive or (near.place and prev not in {"with", "by", "at"})
        return not (seen and word in words.transitive_ing and after not in words.recipient)
    if after in words.next_phrase:
        return False
    noun = word in words.gerund_noun
    if noun and (prev.startswith("show") or (prev == "with" and not after)):
        return True
    # "a photo of her dancing", "the man beside her reading"
    pictured = prev == "of" and near.prev2 in words.picture
    if pictured or prev in words.perceive or (near.place and prev not in {"by", "at"}):
        return False
    return noun or not prev or after in {"", "and"} or (prev in words.preposition and prev != "to")


def _her_two_objects(near: Nearby, prev: str, word: str, after: str) -> bool | None:
    """A bare plural or mass noun behind a verb of giving is the gift, *her* the receiver: "gave her flowers"."""
    if prev not in words.give_or_bring:
        return None
    count = next((count for count in range(1, 4) if near.ends(count + 1)), 4)
    stop, last = near.after(count + 1), near.after(count)
    # "gave her dog water", "gave her flowers to a friend": another receiver is named.
    if word in words.recipients or last in words.recipients:
        return True
    if stop in words.determiner or stop in {"to", "for", "away", "back", "up", "out", "off"}:
        return True
    if last in words.mass_noun or last in words.gift:
        return False
    plural = last.endswith("s") and not last.endswith(("ss", "us", "is"))
    return False if plural and prev in words.give else None


def _her_modifier(near: Nearby, prev: str, word: str, after: str) -> bool | None:
    """An adjective or participle that no noun follows belongs to the verb: "made her happy"."""
    if not (is_adjective(word) or is_participle(word)):
        return None
    if word in {"favorite", "favourite", "young", "good", "left"} or near.noun_behind_modifiers(1):
        return True
    # "on her white": behind a preposition an adjective alone is a noun
    return is_adjective(word) and prev in words.preposition


# The first rule that decides wins; each sees the word before *her* and the two behind it. Time stands before degree
# ("still", "two weeks") and before the auxiliaries ("may").
_OF_ONE_WORD = (_her_time, _her_direction, _her_degree, _her_idiom, _her_adverb)
_HER_RULES = (*_OF_ONE_WORD, _her_verb, _her_ing, _her_two_objects, _her_modifier)


class Nearby:
    """The words around one place of a split text, lower-cased; an empty string where the phrase ends."""

    def __init__(self, parts: Sequence[str], index: int) -> None:
        self.parts, self.index = parts, index
        self.shouted = index > 0 and parts[index].isupper()
        self.next = self.after(1)
        self.next2 = self.after(2) if self.next else ""
        self.prev = self._before(1)
        self.prev2 = self._before(2) if self.prev else ""

    def after(self, count: int) -> str:
        """The count-th word to the right if only spaces and opening quotes stand before it."""
        place = self.index + 2 * count
        gap = self.parts[place - 1] if place < len(self.parts) else ""
        # A quote that closes ("said her" he) leaves no space before itself; one that opens does.
        if gap.strip(" \t\n\"“‘`'") or not gap[:1].isspace():
            return ""
        word = self.parts[place]
        # IT is no pronoun and US no object, unless everything is in capitals.
        return word if word.isupper() and len(word) > 1 and not self.shouted else word.lower()

    def _before(self, count: int) -> str:
        place = self.index - 2 * count
        if place < 1 or self.parts[place + 1].strip(" \t\n"):
            return ""
        return self.parts[place].lower()

    def ends(self, count: int) -> bool:
        """True if no noun-like word stands at the count-th place to the right."""
        word = self.after(count)
        if self.hyphen(count):
            return False
        function = word in words.function and word not in words.before_noun
        return not word or function or word in words.finite or is_adverb(word)

    def noun_behind_modifiers(self, count: int) -> bool:
        """True if a noun follows the modifier at ``count``, over further modifiers, commas and *and*."""
        for place in range(count + 1, count + 5):
            word, at = self.after(place), self.index + 2 * place
            if not word:
                # "her white, fluffy cat": go on behind the comma if what stands there can be a noun group.
                comma = at < len(self.parts) and self.parts[at - 1].strip() == ","
                return (
                    comma and self.parts[at].lower().endswith(_MODIFIER_ENDINGS) and not Nearby(self.parts, at).ends(1)
                )
            if word in {"and", "but", "yet"} and is_modifier(self.after(place + 1)):
                continue
            if self.hyphen(place):
                return True
            if not is_modifier(word):
                return not self.ends(place)
        return False

    def hyphen(self, count: int) -> bool:
        """True if the word is the first half of a compound: "her light-hearted reply"."""
        place = self.index + 2 * count
        return place + 2 < len(self.parts) and self.parts[place + 1] == "-"

    @property
    def place(self) -> bool:
        """True behind a phrase of place: "the man behind her", "in front of her"."""
        pairs = {("to", "next"), ("of", "front"), ("of", "ahead"), ("from", "across")}
        return self.prev in words.place or (self.prev, self.prev2) in pairs
