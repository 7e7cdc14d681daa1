"""Is *her* a possessive (his) or an object (him)? Is *his* a determiner (her) or does it stand alone (hers)?

English spells two female forms alike where the male ones differ, and the other way round. The rules here
look at the word to the right first: *her* with nothing, punctuation or a function word behind it is an
object ("behind her", "told her that"); before any other word it is a possessive ("her red dress"). The
exceptions are constructions, each one function below:

- verbs behind *her*: "let her go", "saw her running", "the man beside her laughs";
- adjectives and participles without a noun: "made her happy", "found her covered in mud";
- two objects: "gave her flowers", but "gave her dog water" and "gave her flowers to a friend";
- adverbs that look like nouns: "took her home", "wants her back", "fired her last week";
- coordination: "his or her bag", "him or her".

No tagger is used, only the lists of ``evenli.mitigate.pronoun_words``.
A text is given as the alternation of separators and words that ``re.split`` with one group returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenli.mitigate import pronoun_words as words
from evenli.mitigate.pronoun_view import View


def her_is_possessive(parts: Sequence[str], index: int) -> bool:
    """True if the *her* at ``parts[index]`` is a possessive (his), False if it is an object (him)."""
    view = View(parts, index)
    joined = _coordinated(parts, index)
    if joined is not None:
        return joined
    if not view.next:
        # "her's" for "hers", and compounds such as "down-on-her-luck"
        joint = parts[index + 1] if index + 2 < len(parts) else ""
        return joint == "-" or (joint in {"'", "’"} and parts[index + 2].lower() == "s")
    if view.hyphen(1):
        return True
    for rule in (_her_special, _her_adverb, _her_verb, _her_ing, _her_two_objects, _her_modifier):
        decision = rule(view)
        if decision is not None:
            return decision
    return True


def his_is_determiner(parts: Sequence[str], index: int) -> bool:
    """True if the *his* at ``parts[index]`` stands before its noun (her), False if it stands alone (hers)."""
    view = View(parts, index)
    joined = _coordinated(parts, index)
    if joined is not None:
        return joined
    word = view.next
    if not word:
        return index + 2 < len(parts) and parts[index + 1] == "-"
    if view.hyphen(1):
        return True
    if word in {"every", "like", "near", "down", "off", "over", "inside", "outside", "under"}:
        return not view.ends(2)
    if word in words.BEFORE_NOUNS or word in {"then", "now", "much", "once", "very"}:
        return bool(view.next2) and view.next2 not in words.AUXILIARIES | words.PREPOSITIONS
    if word in {"will", "might", "can", "own"}:
        return word == "own" or bool(view.prev)
    if word in words.FUNCTION:
        return False
    if view.prev == "of" and view.prev2 and not view.noun_behind_modifiers(1):
        # "a friend of his sitting on the wall", "a cousin of his named Bob"
        verbal = (
            word.endswith("ing") and bool(view.next2) and word not in words.ING_NOUNS | words.GERUND_NOUNS | {"having"}
        )
        finite = word in words.PAST or (word in words.FINITE and word not in words.NOUN_FINITE)
        return not (verbal or finite or words.is_participle(word))
    return True


def _coordinated(parts: Sequence[str], index: int) -> bool | None:
    """The partner of a pair of pronouns decides for both: "his or her bag", "him/her"."""

    def partner(step: int) -> tuple[str, str]:
        near, far = index + 2 * step, index + 4 * step
        slash = parts[index + step].strip() == "/" if 0 <= index + step < len(parts) else False
        if slash and 0 < near < len(parts):
            return "/", parts[near].lower()
        if 0 < near < len(parts) and 0 < far < len(parts) and parts[near].lower() in {"or", "and"}:
            spaces = parts[index + step] + parts[near + step]
            return (parts[near].lower(), parts[far].lower()) if not spaces.strip() else ("", "")
        return "", ""

    joint, left = partner(-1)
    if joint in {"/", "or"} and left in {"his", "him"}:
        return left == "his" and bool(View(parts, index).next)
    if joint == "and" and left == "his":
        return bool(View(parts, index).next)
    joint, right = partner(1)
    if joint in {"/", "or"} and right in {"him", "hers"}:
        return False
    if joint in {"/", "or"} and right in {"himself", "herself"}:
        return True
    if joint and right in words.POSSESSIVES:
        own = parts[index].lower()
        behind = View(parts, index + (2 if joint == "/" else 4))
        if behind.ends(1):
            return None
        if joint == "and" and own == "her":
            # "for her and my mother" is an object; "Her and my tickets" is not
            return True if not View(parts, index).prev else None
        return True
    return None


def _her_special(view: View) -> bool | None:
    """Words that are noun, adverb or auxiliary by what stands around them."""
    word, prev, after = view.next, view.prev, view.next2
    if word in {"own", "very"}:
        return word == "own" or after not in {"much", "well", "hard", "little", "often", "badly", "highly", ""}
    if word in {"back", "home"}:
        if prev in words.PREPOSITIONS or (prev not in words.MOVE and after not in words.DETERMINERS):
            return True
        return word == "home" and after in words.HOME_NOUNS
    if word in {"inside", "outside", "upstairs", "downstairs", "indoors", "outdoors", "overnight"}:
        return not view.ends(2)
    if word in {"last", "next"} and (after in words.TIME_NOUNS or after == "to"):
        return prev in words.PREPOSITIONS and after != "to"
    if (word in words.NUMBERS and after in words.TIME_NOUNS) or (word == "first" and not after):
        return prev in words.PREPOSITIONS
    if (word, after, view.after(3)) == ("face", "to", "face") or (prev.startswith("ke") and word == "company"):
        return False
    if word in words.DATES:
        return prev in words.PREPOSITIONS or not view.ends(2)
    if word == "every":
        return after in words.EVERY_NOUNS
    if word in {"then", "now", "still", "once"}:
        return words.is_recipient(after) or (words.is_modifier(after) and view.noun_behind_modifiers(2))
    if word in words.BEFORE_NOUNS and word not in {"all", "both"}:
        return (
            word == "only" and bool(after) and after not in words.PREPOSITIONS | words.CONJUNCTIONS | words.DETERMINERS
        )
    if word in {"more", "less", "most"}:
        return prev not in words.GIVE and not view.ends(2)
    if word in words.NUMBERS or word.isdigit():
        return prev not in words.GIVE | words.BRING and not (word == "one" and after == "of")
    if word in {"will", "might"}:
        return not after or (prev in words.PREPOSITIONS | {"all"} and view.ends(2))
    if word in {"can", "may"}:
        return after == "of"
    if word == "right":
        return after not in words.BEHIND_RIGHT
    if word == "down":
        return after in words.DOWN_NOUNS
    if word in {"well", "enough"}:
        return False
    if (
        prev in words.NAMING
        and view.parts[view.index + 2][:1].isupper()
        and not view.shouted
        and not words.is_recipient(word)
    ):
        return False
    if prev in words.APPOINT:
        return False if view.ends(2) else None
    return None


def _her_adverb(view: View) -> bool | None:
    """Function words never follow a possessive; adverbs do only before a modifier and its noun."""
    if view.next in words.FUNCTION:
        return False
    if words.is_adverb(view.next):
        follower = view.next2
        if words.is_modifier(follower) or follower.endswith("ing"):
            return view.noun_behind_modifiers(2)
        return view.prev not in words.PERCEIVE | words.LET | words.MAKE and not view.ends(2) and not view.ends(3)
    return None


def _her_verb(view: View) -> bool | None:
    """Infinitives behind let, make, see; finite verbs behind a phrase of place."""
    word, prev = view.next, view.prev
    bare, closed = word in words.VERBS, view.ends(2) or view.next2 == "back"
    determiner = view.next2 in words.DETERMINERS | words.PRONOUNS
    if prev in words.LET and (bare or (determiner and not words.is_recipient(word))):
        return False
    if bare and prev in words.MAKE:
        return False if word not in words.NOUN_FIRST or determiner else None
    if bare and prev in words.PERCEIVE:
        pure = word not in words.NOUN_VERBS
        object_behind = word in {"play", "ride", "read", "eat", "drink", "sing"} and not closed
        return False if pure or determiner or object_behind or (closed and word not in words.NOUN_FIRST) else None
    if bare and prev in words.HAVE:
        return False if word not in words.NOUN_VERBS or determiner else None
    place = view.place
    if word in words.PAST and word not in {"left", "felt", "lay"} and (closed or place):
        return False
    if word in words.FINITE:
        if word not in words.NOUN_FINITE:
            return False if closed or place else None
        return False if determiner or (place and prev not in {"with", "by", "at"} and closed) else None
    nouns = words.NOUN_FIRST - {"watch"}
    if place and bare and closed and word not in nouns and prev not in {"with", "by", "at"}:
        return False
    return None


def _her_ing(view: View) -> bool | None:
    """A word on -ing is verb form, modifier or noun: "saw her running", "her running shoes", "her singing"."""
    word, prev = view.next, view.prev
    if (
        not word.endswith("ing")
        or len(word) < 5
        or word in words.ING_NOUNS
        or word.endswith(("swing", "string", "thing"))
    ):
        return None
    if not view.ends(2):
        # "saw her riding horses", but "saw her riding teacher"
        seen = prev in words.PERCEIVE or (view.place and prev not in {"with", "by", "at"})
        return not (seen and word in words.TRANSITIVE_ING and view.next2 not in words.RECIPIENTS)
    if view.next2 in words.DETERMINERS | words.PRONOUNS:
        return False
    noun = word in words.GERUND_NOUNS
    if noun and (prev.startswith("show") or (prev == "with" and not view.next2)):
        return True
    if prev in words.PERCEIVE or (view.place and prev not in {"by", "at"}):
        return False
    if prev == "of" and view.prev2 in words.PICTURES:
        return False
    return noun or not prev or view.next2 in {"", "and"} or prev in words.PREPOSITIONS - {"to"}


def _her_modifier(view: View) -> bool | None:
    """An adjective or participle that no noun follows belongs to the verb: "made her happy"."""
    if not (words.is_adjective(view.next) or words.is_participle(view.next)):
        return None
    if view.next in {"favorite", "favourite", "young", "good", "left"}:
        return True
    if view.noun_behind_modifiers(1):
        return True
    # "on her white": behind a preposition an adjective alone is a noun
    return words.is_adjective(view.next) and view.prev in words.PREPOSITIONS


def _her_two_objects(view: View) -> bool | None:
    """A bare plural or mass noun behind a verb of giving is the gift, *her* the receiver: "gave her flowers"."""
    if view.prev not in words.GIVE and view.prev not in words.BRING:
        return None
    count = 1
    while not view.ends(count + 1) and count < 4:
        count += 1
    stop, last = view.after(count + 1), view.after(count)
    if (
        words.is_recipient(view.next)
        or words.is_recipient(last)
        or stop in words.DETERMINERS | {"to", "for", "away", "back", "up", "out", "off"}
    ):
        return True
    if last in words.MASS or last in words.GIFTS:
        return False
    plural = last.endswith("s") and not last.endswith(("ss", "us", "is"))
    return False if plural and view.prev in words.GIVE else None
