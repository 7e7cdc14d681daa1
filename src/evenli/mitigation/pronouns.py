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

No tagger is used. The lists are closed classes and a few hundred common verbs and adjectives.
A text is given as the alternation of separators and words that ``re.split`` with one group returns.
"""

from __future__ import annotations

from collections.abc import Sequence


def word_set(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


_DETERMINERS = word_set(
    "a an the this that these those some any no another each either neither both all enough much my your our their"
    " its his her whose"
)
_POSSESSIVES = word_set("my your our their his her its")
_PRONOUNS = word_set(
    "i you he she it we they me him us them who whom which what everything something anything nothing everyone"
    " someone anyone everybody somebody anybody nobody himself herself itself themselves myself yourself ourselves"
    " mine yours hers ours theirs one's"
)
_AUXILIARIES = word_set(
    "is are was were am be been has have had do does did would could should shall ought cannot might must isn aren"
    " wasn weren hasn haven hadn doesn don didn won wouldn couldn shouldn can't"
)
_PREPOSITIONS = word_set(
    "about above across after against along alongside amid among around as at because before behind below beneath"
    " beside besides between beyond by concerning despite down during except for from in into like near of off on"
    " onto over per since than through throughout till to toward towards under underneath until up upon via with"
    " within without aboard atop unlike versus"
)
_CONJUNCTIONS = word_set(
    "and or but nor so yet if unless while whilst when whenever where wherever why how whether though although"
)
_ADVERBS = word_set(
    "abroad again ago ahead almost alone aloud already also always anymore anyway anywhere apart aside asleep away"
    " backward backwards downwards elsewhere even ever everyday everytime everywhere forever forward forwards"
    " goodbye goodnight hello here however indeed instead just later maybe nearly never not nowhere often once only"
    " out perhaps please quite rather seldom sideways sometimes somewhere soon still there today together tomorrow"
    " tonight too twice upside upwards yesterday"
)
_FUNCTION = _DETERMINERS | _PRONOUNS | _AUXILIARIES | _PREPOSITIONS | _CONJUNCTIONS | _ADVERBS
_BEFORE_NOUNS = word_set("only just even still always ever never almost nearly once all both")
"""Function words that may still stand inside a noun group: "her once famous uncle", "his only son"."""

_PLACE = word_set(
    "after behind beside near around by above below opposite across against before under over past alongside at with"
)
_DATES = word_set(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august"
    " september october november december"
)
_TIME_NOUNS = _DATES | word_set(
    "afternoon autumn day days decades evening fall hours minutes month months morning night nights season seconds"
    " semester spring summer time times week weekend weekends weeks winter year years"
)
_NUMBERS = word_set("one two three four five six seven eight nine ten eleven twelve several many few")
_EVERY_NOUNS = word_set("move word need step wish whim thought breath action detail mood gesture")

_ADJECTIVES = word_set(
    "able afraid alive alone angry anxious available awake aware bad bare beautiful better big black blind blond"
    " blonde blue bored brave breathless bright brown busy calm capable clean clever close closer colorful colourful"
    " comfortable confident cool crazy curious curly dark dead deaf dear deep different dirty dizzy drunk dry early"
    " entire famous fancy fat favorite favourite fine fit free funny furious gentle glad golden good gray great"
    " green grey guilty handsome happy hard healthy heavy helpless high homeless honest hopeless hot huge hungry"
    " hurt ill important innocent insane jealous kind large late light little lonely long lost low mad mean"
    " miserable motionless naked nauseous nervous new nice nude numb old open orange pale pink polite poor popular"
    " powerless pregnant pretty proud purple quiet ready red responsible rich rude sad safe senseless short shut shy"
    " sick silent similar skinny sleepy slim small smart sober soft sore special speechless still straight strange"
    " strong stuck stupid suspicious tall thin thirsty tiny tired ugly unable unaware uncomfortable unconscious"
    " uneasy unhappy unpopular unsafe unworthy upright upset warm weak weird wet white whole wild worse worthy"
    " yellow young"
)
_ADJECTIVE_ENDINGS = ("ful", "ous", "less")
_MODIFIER_ENDINGS = ("y", "ed", "ing", "ic", "al", "ive", "en", "ant", "ent", "ue", "ite", "ark", *_ADJECTIVE_ENDINGS)
_LY_ADJECTIVES = word_set(
    "early only lovely elderly friendly family curly daily weekly monthly yearly belly ugly lonely likely lively"
    " silly jelly bully homely costly deadly ghostly heavenly orderly motherly fatherly sisterly brotherly wooly"
    " woolly wobbly bubbly cuddly fly ally reply supply lily holly assembly butterfly dolly trolley wrinkly hilly"
    " chilly smelly oily sly burly jolly scholarly worldly earthly bodily unruly womanly manly kelly sally emily"
    " molly billy"
)

_PURE_VERBS = word_set(
    "adjust admire admit agree allow apologize appear apply approach argue arrange arrive ask assemble attend bake"
    " be become beg behave believe belong bleed blush borrow breathe bring buy calm carry celebrate chat chew choose"
    " clap clean climb collect come compete concentrate consist contain crawl crouch deal decide decorate deliver"
    " depend describe destroy die disappear discover do eat enjoy enter escape examine exist explain explore fail"
    " feel fill finish fix fly follow forget gaze get give go greet grow handle hang happen have hear hide improve"
    " include inspect invite juggle keep kneel knit know lean learn leave listen live lose make manage mean meet"
    " observe open pedal perform pour practise prefer prepare pretend protect put raise read realize recover refuse"
    " relax remember require resemble rinse say scrub see seem select sell send sew shave shiver sing sit sneak"
    " sniff snore speak spend squat stand stay steal suffer survive take teach tell tend think tick understand"
    " unwrap wait wander want wear write yell"
)
_NOUN_VERBS = word_set(
    "bark bend bite blow breakdance brush build call camp catch cause change chase check cheer cook cough cover"
    " cross cry cut dance dig dive draw dress drink drive drop drum exercise exit fall feed film find fish fold"
    " frown gesture glance grab hand hate help hike hit hold hug hurry jog joke jump kick kiss lack land laugh lead"
    " lie lift like look love lunge march matter mix move nap need pack paint pay pick pitch plant play point pose"
    " practice promise pull push race record release remain repair reply rescue rest result return ride run sail"
    " score scream search set share shop shout show sign skate sketch ski sled sleep slide slip smell smile smoke"
    " sneeze sort spin splash stare start step stir stop stretch stroll struggle study stumble surf sweat sweep swim"
    " swing tackle talk taste text thank throw tie toss touch train travel trick trip try tumble turn type use vote"
    " wake walk wash watch wave whisper whistle win wink work wrestle yawn"
)
_NOUN_FIRST = word_set(
    "brush call camp cause change check cook cut dress drink drop drum exercise exit feed film fish glance hand"
    " hate help hug joke kiss lack land lead lie lift love move need pack paint pay pitch plant pose practice"
    " promise race record release remain reply rescue result return ride score search set share shop show sign"
    " sketch sled smell speech stare start step study taste text tie touch train travel trick trip turn type use"
    " vote walk wash watch work"
)
"""Of the words that are noun and verb, those that are mostly nouns behind *her*."""

_VERBS = _PURE_VERBS | _NOUN_VERBS


def _third_person(verb: str) -> str:
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "s"


_FINITE = frozenset(_third_person(verb) for verb in _VERBS)
_NOUN_FINITE = frozenset(_third_person(verb) for verb in _NOUN_VERBS) | word_set("hands")
_PAST = word_set(
    "sat stood held ran went said told took came gave made kept brought threw caught slept sang swam rode drove"
    " wrote ate drank wore spoke fell grew knew began hid hung leaned lay bought got shook sank rang chose slid"
    " swung"
)
_PARTICIPLES = word_set(
    "broken torn worn stuck caught hurt lost born done gone seen taken hidden driven drawn written given beaten"
    " bitten chosen eaten fallen forgotten frozen held kept known thrown shown sworn stolen left"
)
_ED_NOUNS = word_set(
    "bed sled seed shed weed breed speed need deed feed steed reed creed moped red beloved hatred kindred sacred"
    " naked hundred thoroughbred newlywed bunkbed toolshed daybed flowerbed watershed waterbed wicked ted fred ed"
)
_ING_NOUNS = word_set(
    "thing something anything everything nothing wedding building clothing earring morning evening ceiling ring"
    " king string wing spring stocking sling swing bling lightning sibling darling pudding offspring ping ding"
    " upbringing blessing duckling dumpling awning housing bedding lodging plumbing viking gelding icing savings"
    " feeling shilling stuffing frosting belonging being inning outing herring sterling seedling wellbeing"
)
_GERUND_NOUNS = word_set(
    "acting bidding blogging bowling boxing breathing coming cooking dancing drawing driving drumming gardening"
    " going greeting handwriting hearing killing knitting landing laundry lecturing living meaning meeting opening"
    " painting parenting parking passing piercing playing ranking rating recording reporting running saying setting"
    " sewing shopping singing speaking suffering swimming tattooing teaching thinking timing training understanding"
    " warning washing writing"
)
_TRANSITIVE_ING = word_set(
    "riding playing holding eating reading singing making doing washing cleaning wearing drinking carrying selling"
    " cooking kicking throwing watching buying catching chasing cutting drawing feeding fixing folding giving"
    " hitting kissing opening painting petting picking pouring pulling pushing putting smoking studying taking"
    " teaching telling using writing building baking brushing chopping crossing hugging milking performing"
    " practicing"
)

_LET = word_set("let lets letting help helps helped helping bid bids")
_MAKE = word_set("make makes made making")
_HAVE = word_set("have has had having")
_PERCEIVE = word_set(
    "see sees saw seen seeing watch watches watched watching hear hears heard hearing feel feels felt feeling"
    " notice notices noticed noticing observe observes observed observing spot spots spotted catch catches caught"
    " find finds found finding imagine imagines imagined remember remembers remembered film films filmed filming"
    " photograph photographs photographed photographing record records recorded keep keeps kept keeping leave leaves"
    " left leaving picture pictures pictured show shows showed showing depict depicts capture captures captured"
)
_MOVE = word_set(
    "bring brings brought bringing take takes took taken taking get gets got getting want wants wanted wanting send"
    " sends sent sending call calls called calling invite invites invited welcome welcomes welcomed drive drives"
    " drove driving walk walks walked walking carry carries carried carrying follow follows followed following"
    " escort escorts escorted see sees saw lead leads led leading fly flies flew ride rides help helps helped ask"
    " asked pull pulls pulled pulling push pushes pushed pushing win wins won give gives gave giving love loves"
    " loved let lets hold holds held holding hit hits text texted chase chased pay paid keep keeps kept drag drags"
    " dragged accompany accompanied accompanies"
)
_GIVE = word_set(
    "give gives gave giving given offer offers offered offering hand hands handed handing lend lends lent owe owes"
    " owed wish wishes wished promise promises promised deny denied denies grant granted grants teach teaches taught"
    " teaching cost costs guarantee guarantees guaranteed"
)
_BRING = word_set(
    "bring brings brought bringing buy buys bought buying send sends sent sending serve serves served serving feed"
    " feeds fed feeding tell tells told telling ask asks asked asking pass passes passed"
)
_NAMING = word_set("call calls called calling name names named naming tell tells told telling")
_APPOINT = word_set(
    "elect elects elected electing appoint appoints appointed crown crowns crowned dub dubbed nickname nicknamed"
)
_MASS = word_set(
    "money cash water coffee tea food medicine help advice support credit hope courage strength permission"
    " attention access pleasure joy comfort time trouble candy chocolate juice milk wine beer cake bread soup cream"
    " lemonade soda information direction luck math maths english french spanish german chinese latin music ballet"
    " chess yoga karate history science grammar assistance news gum fruit cocoa champagne"
)
_GIFTS = word_set(
    "flowers roses tulips daisies chocolates gifts presents drinks questions jokes stories directions instructions"
    " lies secrets letters messages treats snacks sweets candies cookies grapes apples pastries balloons postcards"
    " tickets"
)
_RECIPIENTS = word_set(
    "mother father mom mum dad mommy daddy parent sister brother son daughter child kid baby toddler infant husband"
    " wife boyfriend girlfriend fiance fiancee partner friend cousin aunt uncle niece nephew grandmother grandfather"
    " grandma grandpa grandson granddaughter grandchild twin family boss employee colleague coworker teammate team"
    " coach student pupil class teacher doctor patient nurse neighbor neighbour guest customer client landlord"
    " lawyer assistant fan audience opponent roommate date dog cat puppy kitten horse pony pet bird chicken goat cow"
    " rabbit fish people boy girl guy man woman companion classmate lover children men women babies families puppies"
    " ponies godson staff crew band followers readers viewers listeners voters army enemy victim captor rival maid"
    " driver agent editor doll"
)


def _is_recipient(word: str) -> bool:
    return word in _RECIPIENTS or (word.endswith("s") and word[:-1] in _RECIPIENTS)


class _View:
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
        verb = word in _PAST or (word in _FINITE and word not in _NOUN_FINITE)
        return not word or verb or (word in _FUNCTION and word not in _BEFORE_NOUNS) or _is_adverb(word)

    def noun_behind_modifiers(self, count: int) -> bool:
        """True if a noun follows the modifier at ``count``, over further modifiers, commas and *and*."""
        for place in range(count + 1, count + 5):
            word = self.after(place)
            if not word and self._comma(place):
                # "her white, fluffy cat": go on behind the comma if what stands there can be a noun group.
                behind = _View(self.parts, self.index + 2 * (place - 1) + 2)
                return self.parts[behind.index].lower().endswith(_MODIFIER_ENDINGS) and not behind.ends(1)
            if not word:
                return False
            if word in {"and", "but", "yet"} and _is_modifier(self.after(place + 1)):
                continue
            if self.hyphen(place):
                return True
            if not _is_modifier(word):
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
        return self.prev in _PLACE or (self.prev, self.prev2) in pairs


def _is_adverb(word: str) -> bool:
    return len(word) > 4 and word.endswith("ly") and word not in _LY_ADJECTIVES


def _is_participle(word: str) -> bool:
    return (len(word) > 3 and word.endswith("ed") and word not in _ED_NOUNS) or word in _PARTICIPLES


def _is_adjective(word: str) -> bool:
    return word in _ADJECTIVES or (len(word) > 5 and word.endswith(_ADJECTIVE_ENDINGS))


def _is_modifier(word: str) -> bool:
    return _is_adjective(word) or _is_participle(word) or _is_adverb(word)


def her_is_possessive(parts: Sequence[str], index: int) -> bool:
    """True if the *her* at ``parts[index]`` is a possessive (his), False if it is an object (him)."""
    view = _View(parts, index)
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
    view = _View(parts, index)
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
    if word in _BEFORE_NOUNS or word in {"then", "now", "much", "once", "very"}:
        return bool(view.next2) and view.next2 not in _AUXILIARIES | _PREPOSITIONS
    if word in {"will", "might", "can", "own"}:
        return word == "own" or bool(view.prev)
    if word in _FUNCTION:
        return False
    if view.prev == "of" and view.prev2 and not view.noun_behind_modifiers(1):
        # "a friend of his sitting on the wall", "a cousin of his named Bob"
        verbal = word.endswith("ing") and bool(view.next2) and word not in _ING_NOUNS | _GERUND_NOUNS | {"having"}
        finite = word in _PAST or (word in _FINITE and word not in _NOUN_FINITE)
        return not (verbal or finite or _is_participle(word))
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
        return left == "his" and bool(_View(parts, index).next)
    if joint == "and" and left == "his":
        return bool(_View(parts, index).next)
    joint, right = partner(1)
    if joint in {"/", "or"} and right in {"him", "hers"}:
        return False
    if joint in {"/", "or"} and right in {"himself", "herself"}:
        return True
    if joint and right in _POSSESSIVES:
        own = parts[index].lower()
        behind = _View(parts, index + (2 if joint == "/" else 4))
        if behind.ends(1):
            return None
        if joint == "and" and own == "her":
            # "for her and my mother" is an object; "Her and my tickets" is not
            return True if not _View(parts, index).prev else None
        return True
    return None


def _her_special(view: _View) -> bool | None:
    """Words that are noun, adverb or auxiliary by what stands around them."""
    word, prev, after = view.next, view.prev, view.next2
    if word in {"own", "very"}:
        return word == "own" or after not in {"much", "well", "hard", "little", "often", "badly", "highly", ""}
    if word in {"back", "home"}:
        if prev in _PREPOSITIONS or (prev not in _MOVE and after not in _DETERMINERS):
            return True
        return word == "home" and after in word_set("town address phone team country office page city game office run")
    if word in {"inside", "outside", "upstairs", "downstairs", "indoors", "outdoors", "overnight"}:
        return not view.ends(2)
    if word in {"last", "next"} and (after in _TIME_NOUNS or after == "to"):
        return prev in _PREPOSITIONS and after != "to"
    if (word in _NUMBERS and after in _TIME_NOUNS) or (word == "first" and not after):
        return prev in _PREPOSITIONS
    if (word, after, view.after(3)) == ("face", "to", "face") or (prev.startswith("ke") and word == "company"):
        return False
    if word in _DATES:
        return prev in _PREPOSITIONS or not view.ends(2)
    if word == "every":
        return after in _EVERY_NOUNS
    if word in {"then", "now", "still", "once"}:
        return _is_recipient(after) or (_is_modifier(after) and view.noun_behind_modifiers(2))
    if word in _BEFORE_NOUNS and word not in {"all", "both"}:
        return word == "only" and bool(after) and after not in _PREPOSITIONS | _CONJUNCTIONS | _DETERMINERS
    if word in {"more", "less", "most"}:
        return prev not in _GIVE and not view.ends(2)
    if word in _NUMBERS or word.isdigit():
        return prev not in _GIVE | _BRING and not (word == "one" and after == "of")
    if word in {"will", "might"}:
        return not after or (prev in _PREPOSITIONS | {"all"} and view.ends(2))
    if word in {"can", "may"}:
        return after == "of"
    if word == "right":
        return after not in word_set("here there now away after before in into on at") | {"back"}
    if word == "down":
        return after in word_set("jacket coat vest pillow comforter")
    if word in {"well", "enough"}:
        return False
    if prev in _NAMING and view.parts[view.index + 2][:1].isupper() and not view.shouted and not _is_recipient(word):
        return False
    if prev in _APPOINT:
        return False if view.ends(2) else None
    return None


def _her_adverb(view: _View) -> bool | None:
    """Function words never follow a possessive; adverbs do only before a modifier and its noun."""
    if view.next in _FUNCTION:
        return False
    if _is_adverb(view.next):
        follower = view.next2
        if _is_modifier(follower) or follower.endswith("ing"):
            return view.noun_behind_modifiers(2)
        return view.prev not in _PERCEIVE | _LET | _MAKE and not view.ends(2) and not view.ends(3)
    return None


def _her_verb(view: _View) -> bool | None:
    """Infinitives behind let, make, see; finite verbs behind a phrase of place."""
    word, prev = view.next, view.prev
    bare, closed = word in _VERBS, view.ends(2) or view.next2 == "back"
    determiner = view.next2 in _DETERMINERS | _PRONOUNS
    if prev in _LET and (bare or (determiner and not _is_recipient(word))):
        return False
    if bare and prev in _MAKE:
        return False if word not in _NOUN_FIRST or determiner else None
    if bare and prev in _PERCEIVE:
        pure = word not in _NOUN_VERBS
        object_behind = word in {"play", "ride", "read", "eat", "drink", "sing"} and not closed
        return False if pure or determiner or object_behind or (closed and word not in _NOUN_FIRST) else None
    if bare and prev in _HAVE:
        return False if word not in _NOUN_VERBS or determiner else None
    place = view.place
    if word in _PAST and word not in {"left", "felt", "lay"} and (closed or place):
        return False
    if word in _FINITE:
        if word not in _NOUN_FINITE:
            return False if closed or place else None
        return False if determiner or (place and prev not in {"with", "by", "at"} and closed) else None
    nouns = _NOUN_FIRST - {"watch"}
    if place and bare and closed and word not in nouns and prev not in {"with", "by", "at"}:
        return False
    return None


def _her_ing(view: _View) -> bool | None:
    """A word on -ing is verb form, modifier or noun: "saw her running", "her running shoes", "her singing"."""
    word, prev = view.next, view.prev
    if not word.endswith("ing") or len(word) < 5 or word in _ING_NOUNS or word.endswith(("swing", "string", "thing")):
        return None
    if not view.ends(2):
        # "saw her riding horses", but "saw her riding teacher"
        seen = prev in _PERCEIVE or (view.place and prev not in {"with", "by", "at"})
        return not (seen and word in _TRANSITIVE_ING and view.next2 not in _RECIPIENTS)
    if view.next2 in _DETERMINERS | _PRONOUNS:
        return False
    noun = word in _GERUND_NOUNS
    if noun and (prev.startswith("show") or (prev == "with" and not view.next2)):
        return True
    if prev in _PERCEIVE or (view.place and prev not in {"by", "at"}):
        return False
    if prev == "of" and view.prev2 in word_set(
        "picture pictures photo photos photograph video videos image images footage"
    ):
        return False
    return noun or not prev or view.next2 in {"", "and"} or prev in _PREPOSITIONS - {"to"}


def _her_modifier(view: _View) -> bool | None:
    """An adjective or participle that no noun follows belongs to the verb: "made her happy"."""
    if not (_is_adjective(view.next) or _is_participle(view.next)):
        return None
    if view.next in {"favorite", "favourite", "young", "good", "left"}:
        return True
    if view.noun_behind_modifiers(1):
        return True
    # "on her white": behind a preposition an adjective alone is a noun
    return _is_adjective(view.next) and view.prev in _PREPOSITIONS


def _her_two_objects(view: _View) -> bool | None:
    """A bare plural or mass noun behind a verb of giving is the gift, *her* the receiver: "gave her flowers"."""
    if view.prev not in _GIVE and view.prev not in _BRING:
        return None
    count = 1
    while not view.ends(count + 1) and count < 4:
        count += 1
    stop, last = view.after(count + 1), view.after(count)
    if (
        _is_recipient(view.next)
        or _is_recipient(last)
        or stop in _DETERMINERS | {"to", "for", "away", "back", "up", "out", "off"}
    ):
        return True
    if last in _MASS or last in _GIFTS:
        return False
    plural = last.endswith("s") and not last.endswith(("ss", "us", "is"))
    return False if plural and view.prev in _GIVE else None
