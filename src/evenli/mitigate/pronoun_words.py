"""The words that decide what *her* and *his* are: closed classes and a few hundred common verbs and adjectives.

All lists are in lower case. The functions behind them say of what kind an open-class word is, by its list or ending.
"""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


DETERMINERS = word_set(
    "a an the this that these those some any no another each either neither both all enough much my your our their"
    " its his her whose"
)
POSSESSIVES = word_set("my your our their his her its")
PRONOUNS = word_set(
    "i you he she it we they me him us them who whom which what everything something anything nothing everyone"
    " someone anyone everybody somebody anybody nobody himself herself itself themselves myself yourself ourselves"
    " mine yours hers ours theirs one's"
)
AUXILIARIES = word_set(
    "is are was were am be been has have had do does did would could should shall ought cannot might must isn aren"
    " wasn weren hasn haven hadn doesn don didn won wouldn couldn shouldn can't"
)
PREPOSITIONS = word_set(
    "about above across after against along alongside amid among around as at because before behind below beneath"
    " beside besides between beyond by concerning despite down during except for from in into like near of off on"
    " onto over per since than through throughout till to toward towards under underneath until up upon via with"
    " within without aboard atop unlike versus"
)
CONJUNCTIONS = word_set(
    "and or but nor so yet if unless while whilst when whenever where wherever why how whether though although"
)
ADVERBS = word_set(
    "abroad again ago ahead almost alone aloud already also always anymore anyway anywhere apart aside asleep away"
    " backward backwards downwards elsewhere even ever everyday everytime everywhere forever forward forwards"
    " goodbye goodnight hello here however indeed instead just later maybe nearly never not nowhere often once only"
    " out perhaps please quite rather seldom sideways sometimes somewhere soon still there today together tomorrow"
    " tonight too twice upside upwards yesterday"
)
FUNCTION = DETERMINERS | PRONOUNS | AUXILIARIES | PREPOSITIONS | CONJUNCTIONS | ADVERBS
BEFORE_NOUNS = word_set("only just even still always ever never almost nearly once all both")
"""Function words that may still stand inside a noun group: "her once famous uncle", "his only son"."""

PLACE = word_set(
    "after behind beside near around by above below opposite across against before under over past alongside at with"
)
DATES = word_set(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august"
    " september october november december"
)
TIME_NOUNS = DATES | word_set(
    "afternoon autumn day days decades evening fall hours minutes month months morning night nights season seconds"
    " semester spring summer time times week weekend weekends weeks winter year years"
)
NUMBERS = word_set("one two three four five six seven eight nine ten eleven twelve several many few")
EVERY_NOUNS = word_set("move word need step wish whim thought breath action detail mood gesture")

ADJECTIVES = word_set(
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
ADJECTIVE_ENDINGS = ("ful", "ous", "less")
MODIFIER_ENDINGS = ("y", "ed", "ing", "ic", "al", "ive", "en", "ant", "ent", "ue", "ite", "ark", *ADJECTIVE_ENDINGS)
LY_ADJECTIVES = word_set(
    "early only lovely elderly friendly family curly daily weekly monthly yearly belly ugly lonely likely lively"
    " silly jelly bully homely costly deadly ghostly heavenly orderly motherly fatherly sisterly brotherly wooly"
    " woolly wobbly bubbly cuddly fly ally reply supply lily holly assembly butterfly dolly trolley wrinkly hilly"
    " chilly smelly oily sly burly jolly scholarly worldly earthly bodily unruly womanly manly kelly sally emily"
    " molly billy"
)

PURE_VERBS = word_set(
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
NOUN_VERBS = word_set(
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
NOUN_FIRST = word_set(
    "brush call camp cause change check cook cut dress drink drop drum exercise exit feed film fish glance hand"
    " hate help hug joke kiss lack land lead lie lift love move need pack paint pay pitch plant pose practice"
    " promise race record release remain reply rescue result return ride score search set share shop show sign"
    " sketch sled smell speech stare start step study taste text tie touch train travel trick trip turn type use"
    " vote walk wash watch work"
)
"""Of the words that are noun and verb, those that are mostly nouns behind *her*."""

VERBS = PURE_VERBS | NOUN_VERBS


def _third_person(verb: str) -> str:
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "s"


FINITE = frozenset(_third_person(verb) for verb in VERBS)
NOUN_FINITE = frozenset(_third_person(verb) for verb in NOUN_VERBS) | word_set("hands")
PAST = word_set(
    "sat stood held ran went said told took came gave made kept brought threw caught slept sang swam rode drove"
    " wrote ate drank wore spoke fell grew knew began hid hung leaned lay bought got shook sank rang chose slid"
    " swung"
)
PARTICIPLES = word_set(
    "broken torn worn stuck caught hurt lost born done gone seen taken hidden driven drawn written given beaten"
    " bitten chosen eaten fallen forgotten frozen held kept known thrown shown sworn stolen left"
)
ED_NOUNS = word_set(
    "bed sled seed shed weed breed speed need deed feed steed reed creed moped red beloved hatred kindred sacred"
    " naked hundred thoroughbred newlywed bunkbed toolshed daybed flowerbed watershed waterbed wicked ted fred ed"
)
ING_NOUNS = word_set(
    "thing something anything everything nothing wedding building clothing earring morning evening ceiling ring"
    " king string wing spring stocking sling swing bling lightning sibling darling pudding offspring ping ding"
    " upbringing blessing duckling dumpling awning housing bedding lodging plumbing viking gelding icing savings"
    " feeling shilling stuffing frosting belonging being inning outing herring sterling seedling wellbeing"
)
GERUND_NOUNS = word_set(
    "acting bidding blogging bowling boxing breathing coming cooking dancing drawing driving drumming gardening"
    " going greeting handwriting hearing killing knitting landing laundry lecturing living meaning meeting opening"
    " painting parenting parking passing piercing playing ranking rating recording reporting running saying setting"
    " sewing shopping singing speaking suffering swimming tattooing teaching thinking timing training understanding"
    " warning washing writing"
)
TRANSITIVE_ING = word_set(
    "riding playing holding eating reading singing making doing washing cleaning wearing drinking carrying selling"
    " cooking kicking throwing watching buying catching chasing cutting drawing feeding fixing folding giving"
    " hitting kissing opening painting petting picking pouring pulling pushing putting smoking studying taking"
    " teaching telling using writing building baking brushing chopping crossing hugging milking performing"
    " practicing"
)

LET = word_set("let lets letting help helps helped helping bid bids")
MAKE = word_set("make makes made making")
HAVE = word_set("have has had having")
PERCEIVE = word_set(
    "see sees saw seen seeing watch watches watched watching hear hears heard hearing feel feels felt feeling"
    " notice notices noticed noticing observe observes observed observing spot spots spotted catch catches caught"
    " find finds found finding imagine imagines imagined remember remembers remembered film films filmed filming"
    " photograph photographs photographed photographing record records recorded keep keeps kept keeping leave leaves"
    " left leaving picture pictures pictured show shows showed showing depict depicts capture captures captured"
)
MOVE = word_set(
    "bring brings brought bringing take takes took taken taking get gets got getting want wants wanted wanting send"
    " sends sent sending call calls called calling invite invites invited welcome welcomes welcomed drive drives"
    " drove driving walk walks walked walking carry carries carried carrying follow follows followed following"
    " escort escorts escorted see sees saw lead leads led leading fly flies flew ride rides help helps helped ask"
    " asked pull pulls pulled pulling push pushes pushed pushing win wins won give gives gave giving love loves"
    " loved let lets hold holds held holding hit hits text texted chase chased pay paid keep keeps kept drag drags"
    " dragged accompany accompanied accompanies"
)
GIVE = word_set(
    "give gives gave giving given offer offers offered offering hand hands handed handing lend lends lent owe owes"
    " owed wish wishes wished promise promises promised deny denied denies grant granted grants teach teaches taught"
    " teaching cost costs guarantee guarantees guaranteed"
)
BRING = word_set(
    "bring brings brought bringing buy buys bought buying send sends sent sending serve serves served serving feed"
    " feeds fed feeding tell tells told telling ask asks asked asking pass passes passed"
)
NAMING = word_set("call calls called calling name names named naming tell tells told telling")
APPOINT = word_set(
    "elect elects elected electing appoint appoints appointed crown crowns crowned dub dubbed nickname nicknamed"
)
MASS = word_set(
    "money cash water coffee tea food medicine help advice support credit hope courage strength permission"
    " attention access pleasure joy comfort time trouble candy chocolate juice milk wine beer cake bread soup cream"
    " lemonade soda information direction luck math maths english french spanish german chinese latin music ballet"
    " chess yoga karate history science grammar assistance news gum fruit cocoa champagne"
)
GIFTS = word_set(
    "flowers roses tulips daisies chocolates gifts presents drinks questions jokes stories directions instructions"
    " lies secrets letters messages treats snacks sweets candies cookies grapes apples pastries balloons postcards"
    " tickets"
)
RECIPIENTS = word_set(
    "mother father mom mum dad mommy daddy parent sister brother son daughter child kid baby toddler infant husband"
    " wife boyfriend girlfriend fiance fiancee partner friend cousin aunt uncle niece nephew grandmother grandfather"
    " grandma grandpa grandson granddaughter grandchild twin family boss employee colleague coworker teammate team"
    " coach student pupil class teacher doctor patient nurse neighbor neighbour guest customer client landlord"
    " lawyer assistant fan audience opponent roommate date dog cat puppy kitten horse pony pet bird chicken goat cow"
    " rabbit fish people boy girl guy man woman companion classmate lover children men women babies families puppies"
    " ponies godson staff crew band followers readers viewers listeners voters army enemy victim captor rival maid"
    " driver agent editor doll"
)

HOME_NOUNS = word_set("town address phone team country office page city game run")
"""Nouns that make *home* behind *her* a part of a compound: "her home town"."""
DOWN_NOUNS = word_set("jacket coat vest pillow comforter")
BEHIND_RIGHT = word_set("here there now away after before in into on at back")
"""What follows *right* where it is an adverb: "put her right back"."""
PICTURES = word_set("picture pictures photo photos photograph video videos image images footage")


def is_recipient(word: str) -> bool:
    """True for a person or animal that can be given something, also in the plural."""
    return word in RECIPIENTS or (word.endswith("s") and word[:-1] in RECIPIENTS)


def is_adverb(word: str) -> bool:
    """True for a word on -ly that is not known as adjective, noun or name."""
    return len(word) > 4 and word.endswith("ly") and word not in LY_ADJECTIVES


def is_participle(word: str) -> bool:
    """True for a past participle: on -ed unless known as a noun, or irregular."""
    return (len(word) > 3 and word.endswith("ed") and word not in ED_NOUNS) or word in PARTICIPLES


def is_adjective(word: str) -> bool:
    """True for a listed adjective or one with an ending that hardly any noun has."""
    return word in ADJECTIVES or (len(word) > 5 and word.endswith(ADJECTIVE_ENDINGS))


def is_modifier(word: str) -> bool:
    """True for what may stand between a possessive and its noun."""
    return is_adjective(word) or is_participle(word) or is_adverb(word)
