"""What stands around one *her* or *his* of a text: the words near it, and where its noun group ends."""

from __future__ import annotations

from collections.abc import Sequence

from evenli.mitigate import pronoun_words as words


class View:
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
        if place >= len(self.parts) or self.parts[place - 1].strip(" \t\n\"“‘`'"):
            return ""
        # A quote that closes ("said her" he) leaves no space before itself; one that opens does.
        if not self.parts[place - 1][:1].isspace():
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
        function = word in words.FUNCTION and word not in words.BEFORE_NOUNS
        return not word or function or words.is_finite(word) or words.is_adverb(word)

    def noun_behind_modifiers(self, count: int) -> bool:
        """True if a noun follows the modifier at ``count``, over further modifiers, commas and *and*."""
        for place in range(count + 1, count + 5):
            word = self.after(place)
            if not word and self._comma(place):
                # "her white, fluffy cat": go on behind the comma if what stands there can be a noun group.
                behind = View(self.parts, self.index + 2 * (place - 1) + 2)
                return self.parts[behind.index].lower().endswith(words.MODIFIER_ENDINGS) and not behind.ends(1)
            if not word:
                return False
            if word in {"and", "but", "yet"} and words.is_modifier(self.after(place + 1)):
                continue
            if self.hyphen(place):
                return True
            if not words.is_modifier(word):
                return not self.ends(place)
        return False

    def hyphen(self, count: int) -> bool:
        """True if the word is the first half of a compound: "her light-hearted reply"."""
        place = self.index + 2 * count
        return place + 2 < len(self.parts) and self.parts[place + 1] == "-"

    def _comma(self, count: int) -> bool:
        place = self.index + 2 * count
        return place < len(self.parts) and self.parts[place - 1].strip() == ","

    @property
    def place(self) -> bool:
        """True behind a phrase of place: "the man behind her", "in front of her"."""
        pairs = {("to", "next"), ("of", "front"), ("of", "ahead"), ("from", "across")}
        return self.prev in words.word_class("place") or (self.prev, self.prev2) in pairs
