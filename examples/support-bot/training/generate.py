"""Writes the support-dialogue corpus and the demo's tickets.

Everything comes from the sentence templates in `templates.py` and from random slot values; no
outside data is read. The same seed gives the same files, byte for byte.

    python generate.py corpus  --out target/support-bot        # train, copy, held_out, train_wide, copy_wide
    python generate.py last    --out target/support-bot        # train_last, copy_last; needs the tokenizer
    python generate.py tickets --out examples/support-bot/tickets.jsonl

A corpus line is {"system", "content", "answer", "intent", "slots", "required"}: `content` is the user
message exactly as the pipeline's prompt template renders it, `slots` are the strings that the answer
copies from the message, `required` those among them that the judgement asks for.

Held-out lines use customer sentences, openings, details, closings, brand words and product nouns that no
training line uses, and more shapes of order numbers.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path

import templates as T

ALTERNATION = re.compile(r"\(([^()]*\|[^()]*)\)")
WORD = re.compile(r"(?<![\w{\[])[a-z]{4,}(?![\w}\]])")

NOUNS = (
    "Kettle;Desk Lamp;Headphones;Backpack;Blender;Toaster;Office Chair;Coffee Machine;Keyboard;Mouse;Monitor;"
    "Phone Case;Charger;Power Bank;Speaker;Soundbar;Camera;Tripod;Rain Jacket;Running Shoes;Hiking Boots;Sweater;"
    "T-Shirt;Jeans;Winter Coat;Scarf;Gloves;Yoga Mat;Dumbbells;Bicycle Helmet;Bike Lock;Tent;Sleeping Bag;Water Bottle;"
    "Thermos;Frying Pan;Knife Set;Cutting Board;Rice Cooker;Air Fryer;Vacuum Cleaner;Iron;Hair Dryer;Toothbrush;Shaver;"
    "Bathroom Scale;Towel Set;Bed Sheets;Pillow;Mattress;Bookshelf;Coffee Table;Sofa;Wardrobe;Mirror;Curtains;Rug;"
    "Wall Clock;Alarm Clock;Radio;Turntable;Guitar;Ukulele;Puzzle;Board Game;Toy Train;Doll House;Stroller;Car Seat;"
    "Baby Monitor;Dog Bed;Cat Tree;Aquarium;Bird Feeder;Garden Hose;Lawn Mower;Drill;Screwdriver Set;Ladder;Toolbox;"
    "Flashlight;Smoke Detector;Door Lock;Thermostat;Light Bulb;Router;USB Hub;Memory Card;Hard Drive;Tablet;Laptop Sleeve;"
    "E-Reader;Smartwatch;Fitness Tracker;Printer;Ink Cartridge;Notebook;Fountain Pen;Calculator;Microphone;Webcam;"
    "Game Controller;Drone;Projector;Heater;Fan;Humidifier;Air Purifier;Dishwasher;Fridge;Oven;Espresso Cups;Tea Set"
).split(";")
NOUNS_HELD_OUT = (
    "Waffle Iron;Telescope;Umbrella;Hammock;Skateboard;Sewing Machine;Juicer;Trumpet;Compost Bin;Headlamp;Violin;"
    "Sandals;Bread Maker;Weather Station;Paddle Board;Desk Organiser;Milk Frother;Snow Shovel;Earbuds;Picnic Basket"
).split(";")
ADJECTIVES = (
    "Cordless;Compact;Foldable;Wireless;Classic;Smart;Portable;Silent;Heavy-Duty;Organic;Travel;Premium;Mini;Solar;"
    "Digital;Leather;Bamboo;Steel;Ceramic;Outdoor;Kids;Black;Blue;White;Green;Red;Grey;Large;Small;Slim"
).split(";")
ADJECTIVES_HELD_OUT = "Magnetic;Walnut;Waterproof;Vintage;Turquoise;Featherlight;Copper;Quilted".split(";")
SUFFIXES = "Pro;Plus;Max;Lite;XL;2;3;Mk II;S;SE;500;2.0;Go;Air;One".split(";")
SUFFIXES_HELD_OUT = "Ultra;Neo;V8;640;Duo".split(";")
ONSETS = "b c d f g h j k l m n p r s t v w z br cl dr fl gr kr pl st tr sh th".split()
VOWELS = "a e i o u a e i o ai ea ou".split()
CODAS = "  n r l s x k m t nd rn lt".split(" ")
ONSETS_HELD_OUT = "qu sn bl pr sk gl y vr sp ch".split()
VOWELS_HELD_OUT = "oo y ee io au ei".split()

PARTS = "lid;handle;cable;plug;screen;strap;remote;charger;cover;battery;button;wheel;zip;manual;bracket;hinge".split(";")
CITIES = (
    "Leeds;Berlin;Lyon;Porto;Oslo;Dublin;Austin;Denver;Turin;Gdansk;Graz;Malmo;Bristol;Ghent;Tampere;Boston;Bath;Cork"
).split(";")
MONTHS = "January;March;May;June;July;August;September;October;December;spring".split(";")
FIRST_NAMES = (
    "Marta;Jonas;Aisha;Liam;Noor;Elena;Pavel;Grace;Tomas;Ines;Yusuf;Clara;Oskar;Mei;Daniel;Priya;Hugo;Sofia;Emeka;Lotte;"
    "Ruth;Viktor;Amara;Felix;Hana;Diego;Brigit;Samir;Nadia;Owen;Petra;Kofi;Maud;Anders;Leila;Rafael;Tess;Ivo;Zofia;Ben"
).split(";")
LAST_NAMES = (
    "Lindqvist;Okafor;Brandt;Moreau;Castell;Haddad;Novak;Ferreira;Quinn;Sato;Weber;Iyer;Dalgaard;Romano;Pike;Vance;"
    "Kowal;Underhill;Bakker;Ashdown;Marsh;Olsen;Tremblay;Varga;Holloway;Petrov;Lund;Achebe;Greco;Farrow"
).split(";")
SYSTEM_MESSAGES = (
    "You answer support tickets.", "You are a helpful support agent.", "You are the support agent of a shop.",
    "Answer the customer in one to three sentences.", "You are a polite assistant.",
)


@dataclass
class Values:
    """The slot values of one ticket. Empty strings stand for fields that the ticket lacks."""

    name: str = ""
    product: str = ""
    order: str = ""
    email: str = ""
    phone: str = ""
    card: str = ""
    iban: str = ""
    ssn: str = ""
    ip: str = ""


@dataclass
class Dialogue:
    """One user message with the agent's answer."""

    content: str
    answer: str
    intent: str
    slots: list[str]
    required: list[str]
    system: str = ""


@dataclass
class Split:
    """What one side of the corpus may use."""

    held_out: bool
    makers: tuple[str, ...] = ()
    wide: bool = False
    pieces: tuple[str, ...] = ()
    nouns: list[str] = field(default_factory=list)
    adjectives: list[str] = field(default_factory=list)
    suffixes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nouns = NOUNS_HELD_OUT if self.held_out else NOUNS
        self.adjectives = ADJECTIVES_HELD_OUT if self.held_out else ADJECTIVES
        self.suffixes = SUFFIXES_HELD_OUT if self.held_out else SUFFIXES


def expand(rng: random.Random, template: str) -> str:
    """Picks one alternative of each `(a|b)` in the template."""
    return ALTERNATION.sub(lambda m: rng.choice(m.group(1).split("|")), template)


def brand(rng: random.Random, held_out: bool) -> str:
    """A made-up word. Held-out words start with onsets and vowels that training words never have."""
    word = ""
    for _ in range(rng.choice((1, 2, 2, 2, 3))):
        onset = rng.choice(ONSETS_HELD_OUT if held_out else ONSETS)
        vowel = rng.choice(VOWELS_HELD_OUT if held_out and rng.random() < 0.6 else VOWELS)
        word += onset + vowel
    return (word + rng.choice(CODAS)).capitalize()


def template_words() -> list[str]:
    """The words of the training sentences: raw material of made-up words."""
    text = " ".join(" ".join(i.train) for i in T.INTENTS) + " " + " ".join(NOUNS) + " " + " ".join(ADJECTIVES) + " " + " ".join(CITIES)
    return sorted({w.lower() for w in re.findall(r"[A-Za-z]{4,}", text)})


WORDS = template_words()
HELD_OUT_WORDS = {w.lower() for phrase in NOUNS_HELD_OUT + ADJECTIVES_HELD_OUT for w in phrase.split()}


def vocabulary_pieces(tokenizer: Path) -> tuple[str, ...]:
    """The tokens made of ASCII letters. Words glued from them make every token one that has been copied."""
    vocabulary = json.loads(tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
    return tuple(sorted({w.lstrip("\u0120") for w in vocabulary if re.fullmatch("\u0120?[A-Za-z]{2,12}", w)}))


def wide_word(rng: random.Random, pieces: tuple[str, ...] = ()) -> str:
    """A word of a wide name: two word halves glued, random letters, glued tokens, or a plain word."""
    if pieces and rng.random() < 0.5:
        word = "".join(rng.choice(pieces) for _ in range(rng.choice((1, 2, 2, 3)))).lower()
        return wide_word(rng, pieces) if word in HELD_OUT_WORDS else word.capitalize()
    roll = rng.random()
    if roll < 0.45:
        a, b = rng.choice(WORDS), rng.choice(WORDS)
        word = a[: rng.randrange(2, len(a))] + b[rng.randrange(1, len(b) - 1):]
    elif roll < 0.75:
        word = "".join(rng.choice("aeiouy" if rng.random() < 0.42 else "bcdfghjklmnpqrstvwxz") for _ in range(rng.randrange(2, 9)))
    elif roll < 0.9:
        word = brand(rng, False).lower()
    else:
        word = rng.choice(WORDS)
    if word in HELD_OUT_WORDS:
        return wide_word(rng)
    return word.capitalize()


def wide_product(rng: random.Random, split: Split) -> str:
    """A product name of one to four words that are mostly no known product words."""
    words = [wide_word(rng, split.pieces) for _ in range(rng.choice((1, 2, 2, 2, 3, 3, 4)))]
    roll = rng.random()
    if roll < 0.25:
        words[-1] = rng.choice(split.nouns)
    elif roll < 0.50:
        words.insert(rng.randrange(len(words) + 1), rng.choice("ABCDEGHKMNPRSTVXZ") + str(rng.randrange(1, 10_000)))
    elif roll < 0.65:
        words.append(str(rng.randrange(1, 1000)))
    elif roll < 0.75:
        words.append(rng.choice(split.suffixes))
    name = " ".join(words)
    return name.lower() if rng.random() < 0.10 else name


def product(rng: random.Random, split: Split) -> str:
    """A product name: made-up brand, adjective, noun, model number, suffix, in several orders."""
    if split.wide and rng.random() < 0.75:
        return wide_product(rng, split)
    noun, adjective = rng.choice(split.nouns), rng.choice(split.adjectives)
    maker = rng.choice(split.makers) if split.makers else brand(rng, split.held_out)
    suffix = rng.choice(split.suffixes)
    model = rng.choice("ABCDEGHKMNPRSTVXZ") + str(rng.randrange(1, 10 ** rng.choice((1, 2, 3, 4))))
    form = rng.randrange(9)
    name = (
        f"{maker} {noun}", f"{maker} {noun}", f"{maker} {adjective} {noun}", f"{adjective} {noun}",
        f"{maker} {model}", f"{maker} {model} {noun}", f"{maker} {noun} {suffix}", f"{noun} {model}",
        f"{maker} {rng.choice(split.makers) if split.makers else brand(rng, split.held_out)} {noun}",
    )[form]
    return name.lower() if rng.random() < 0.08 else name


ORDER_SHAPES = (
    "A-ddddd", "ddd-ddddddd", "AAdddddd", "AAddddd", "#ddddd", "#dddddd", "dddddd", "dddddddd", "AAA-dddd",
    "ORD-ddddd", "A-dddd", "Adddddd", "dddd-dddd", "AA-dddddd", "SO-dddd-dd", "dd/ddddd", "#A-dddd",
)
ORDER_SHAPES_HELD_OUT = ORDER_SHAPES + ("AA-ddd-ddd", "#AAdddd", "ddddA", "ddd-ddddd-d")


def any_order(rng: random.Random) -> str:
    """An order number of no known shape: two to four groups of letters or digits in any order."""
    groups = [
        "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(rng.randrange(1, 4))) if rng.random() < 0.4
        else "".join(rng.choice("0123456789") for _ in range(rng.randrange(2, 7))) for _ in range(rng.randrange(2, 5))
    ]
    text = rng.choice(("", "", "#")) + rng.choice(("", "-", "-", "/")).join(groups)
    return text if any(c.isdigit() for c in text) else any_order(rng)


def order(rng: random.Random, split: Split) -> str:
    """An order number in one of many shapes. Capital letters and digits are random."""
    if split.pieces and rng.random() < 0.5:
        return any_order(rng)
    held_out = split.held_out
    shape = rng.choice(ORDER_SHAPES_HELD_OUT if held_out else ORDER_SHAPES)
    if shape.startswith(("ORD", "SO")):
        return re.sub("d", lambda _: rng.choice("0123456789"), shape)
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
    return re.sub("[Ad]", lambda m: rng.choice(letters if m.group() == "A" else "0123456789"), shape)


def placeholder(rng: random.Random, kind: str) -> str:
    """A placeholder as the redaction writes it, mostly with index 1."""
    return f"[{kind}_{rng.choices((1, 2, 3), (88, 9, 3))[0]}]"


def random_values(rng: random.Random, split: Split) -> Values:
    """Slot values of a corpus line: the model sees placeholders instead of personal data."""
    name = placeholder(rng, "NAME")
    roll = rng.random()
    if roll < 0.10:
        name = ""
    elif roll < 0.18:
        name = f"{wide_word(rng, split.pieces)} {wide_word(rng, split.pieces)}" if split.wide else f"{brand(rng, split.held_out)} {brand(rng, split.held_out)}"
    kinds = {k: placeholder(rng, k.upper()) for k in ("email", "phone", "card", "iban", "ssn", "ip")}
    return Values(name=name, product=product(rng, split), order=order(rng, split), **kinds)


def fill(rng: random.Random, text: str, values: Values, show_product: bool, show_order: bool) -> str:
    """Fills the customer's sentence. Mentions product and order only where `show_*` allows it."""
    item = rng.choice(T.ITEM_PHRASES if show_product and rng.random() < 0.5 else T.ITEM_PHRASES_BARE)
    ord_ = rng.choice(T.ORDER_PHRASES if show_order and rng.random() < 0.5 else T.ORDER_PHRASES_BARE)
    amount = rng.choice((f"{rng.randrange(3, 900)}.{rng.randrange(100):02d}", f"{rng.randrange(5, 500)}"))
    text = text.replace("{item}", item).replace("{ord}", ord_)
    text = text.replace("{contact}", rng.choice((values.email, values.phone)))
    text = text.replace("{amount}", rng.choice((f"{amount} euros", f"${amount}", f"{amount} EUR", f"£{amount}", f"{amount} dollars")))
    text = text.replace("{days}", rng.choice(("two days", "three days", "a week", "two weeks", "10 days", "5 days", "a month", "6 weeks")))
    text = text.replace("{city}", rng.choice(CITIES)).replace("{month}", rng.choice(MONTHS))
    text = text.replace("{part}", rng.choice(PARTS)).replace("{code}", rng.choice(("SAVE10", "SPRING", "WELCOME5", "VIP20")))
    for key in ("name", "product", "order", "email", "phone", "card", "iban", "ssn", "ip"):
        text = text.replace("{" + key + "}", getattr(values, key))
    return text


def roughen(rng: random.Random, template: str) -> str:
    """Small mistakes of a hurried writer, in words of the template only, never in slot values."""
    roll = rng.random()
    if roll < 0.08:
        template = template.lower()
    elif roll < 0.11:
        template = re.sub(r"[A-Z]?[a-z']+(?![\w}])", lambda m: m.group() if "{" in template[max(0, m.start() - 1):m.start()] else m.group().upper(), template)
    if rng.random() < 0.10:
        template = template.rstrip(".!")
    if rng.random() < 0.10:
        words = list(WORD.finditer(template))
        if words:
            m = rng.choice(words)
            i = rng.randrange(m.start() + 1, m.end() - 1)
            swap = template[i + 1] + template[i] if rng.random() < 0.5 else template[i + 1]
            template = template[:i] + swap + template[i + 2:]
    return template


def compose_text(rng: random.Random, intent: T.Intent, values: Values, split: Split, show_product: bool, show_order: bool, pii: float = 0.22) -> str:
    """The customer's text: an intent sentence with optional opening, details, contact and closing."""
    h = split.held_out
    core = roughen(rng, expand(rng, rng.choice(intent.held_out if h else intent.train)))
    pieces = []
    if rng.random() < 0.40:
        pieces.append(rng.choice(T.OPENINGS_HELD_OUT if h else T.OPENINGS_TRAIN))
    pieces.append(core)
    if rng.random() < 0.35:
        detail = rng.choice(T.DETAILS_HELD_OUT if h else T.DETAILS_TRAIN)
        if "{order}" not in detail or show_order:
            pieces.insert(len(pieces) if rng.random() < 0.7 else len(pieces) - 1, detail)
    if rng.random() < pii:
        pieces.append(rng.choice(T.CONTACTS_HELD_OUT if h else T.CONTACTS_TRAIN))
    if rng.random() < 0.40:
        pieces.append(rng.choice(T.CLOSINGS_HELD_OUT if h else T.CLOSINGS_TRAIN))
    if not values.name:
        pieces = [p for p in pieces if "{name}" not in p]
    separator = "\n" if rng.random() < 0.06 else " "
    return separator.join(fill(rng, p, values, show_product, show_order) for p in pieces)


def render_content(name: str, product_: str, order_: str, text: str) -> str:
    """The prompt template of the pipeline, character for character."""
    return f"Customer: {name}\nProduct: {product_}\nOrder: {order_}\n\n{text}"


def thing(rng: random.Random, product_: str, order_: str) -> str:
    """The agent's noun phrase for what the ticket is about."""
    forms = {(True, True): T.THING_BOTH, (True, False): T.THING_PRODUCT, (False, True): T.THING_ORDER, (False, False): T.THING_NONE}
    return rng.choice(forms[bool(product_), bool(order_)]).format(product=product_, order=order_)


def answer_for(rng: random.Random, intent: T.Intent, name: str, product_: str, order_: str, text: str) -> tuple[str, list[str]]:
    """The agent's answer and the strings that it copies from the message."""
    template = rng.choice(intent.answers)
    body = template.format(thing=thing(rng, product_, order_))
    if "{thing}" not in template and (product_ or order_):
        body += f" I have noted this for {thing(rng, product_, order_)}."
    slots = [s for s in (name, product_, order_) if s]
    for kind, pattern in (("email", r"\[EMAIL_\d\]"), ("phone", r"\[PHONE_\d\]")):
        found = re.search(pattern, text)
        sentence = T.CONTACT_ANSWERS.get((intent.contact, kind))
        if found and sentence:
            body += " " + sentence.format(**{kind: found.group()})
            slots.append(found.group())
            break
    if not body.startswith("I "):
        body = body[0].lower() + body[1:]
    return (f"Hello {name}, {body}" if name else f"Hello, {body}"), slots


def dialogue(rng: random.Random, split: Split) -> Dialogue:
    """One line of the corpus."""
    intent = rng.choice(T.INTENTS)
    values = random_values(rng, split)
    has_product = rng.random() < (0.85 if intent.shop else 0.25)
    has_order = rng.random() < (0.82 if intent.shop else 0.2)
    # Where the order field is empty the customer may still write the number in the text.
    show_order = has_order or (intent.shop and rng.random() < 0.4)
    text = compose_text(rng, intent, values, split, has_product, show_order)
    product_ = values.product if has_product else ""
    order_ = values.order if has_order else ""
    name = values.name
    named_order = order_ or (values.order if values.order in text else "")
    content = render_content(name, product_, order_, text)
    if not (name or product_ or order_) and rng.random() < 0.5 or rng.random() < 0.04:
        # A bare message without the ticket's header lines.
        content, name, product_ = text, "", ""
        named_order = values.order if values.order in text else ""
        if values.product in text:
            product_ = values.product
    answer, slots = answer_for(rng, intent, name, product_, named_order, text)
    required = [s for s in (name, product_, named_order) if s]
    system = rng.choice(SYSTEM_MESSAGES) if rng.random() < 0.2 else ""
    return Dialogue(content, answer, intent.name, slots, required, system)


def copy_exercise(rng: random.Random, split: Split) -> Dialogue:
    """A pure copying exercise, used early in training so that copying from the prompt forms fast."""
    pieces = []
    for _ in range(rng.randrange(2, 7)):
        pieces.append(rng.choice((
            lambda: product(rng, split), lambda: order(rng, split), lambda: placeholder(rng, rng.choice(("NAME", "EMAIL", "PHONE"))),
            lambda: brand(rng, False), lambda: "".join(rng.choice("0123456789") for _ in range(rng.randrange(4, 12))),
        ))())
    sequence = ", ".join(pieces)
    return Dialogue(f"Repeat: {sequence}", sequence, "copy", [sequence], [])


def shared_runs(length: int = 5) -> list[str]:
    """Held-out sentences that share a run of `length` words with any training sentence. There must be none."""

    def alternatives(template: str) -> list[str]:
        found = ALTERNATION.search(template)
        if not found:
            return [template]
        before, after = template[: found.start()], template[found.end():]
        return [t for choice in found.group(1).split("|") for t in alternatives(before + choice + after)]

    def runs(sentence: str) -> set[tuple[str, ...]]:
        words = re.findall(r"[a-z{}']+", sentence.lower())
        return {tuple(words[i:i + length]) for i in range(len(words) - length + 1)}

    known: set[tuple[str, ...]] = set()
    for group in [i.train for i in T.INTENTS] + [T.OPENINGS_TRAIN, T.DETAILS_TRAIN, T.CONTACTS_TRAIN, T.CLOSINGS_TRAIN]:
        for template in group:
            known |= set().union(*(runs(t) for t in alternatives(template)))
    return [t for i in T.INTENTS for t in i.held_out if runs(t) & known]


def write_last(out: Path, seed: int, count: int, tokenizer: Path) -> None:
    """Writes train_last.jsonl and copy_last.jsonl, whose names and numbers use every token of the vocabulary."""
    split = Split(False, wide=True, pieces=vocabulary_pieces(tokenizer))
    for name, maker, lines, offset in (("train_last", dialogue, count, 5), ("copy_last", copy_exercise, count // 5, 6)):
        rng = random.Random(seed * 1000 + offset)
        with open(out / f"{name}.jsonl", "w", encoding="utf-8") as f:
            for _ in range(lines):
                f.write(json.dumps(maker(rng, split).__dict__, ensure_ascii=False) + "\n")
        print(f"{name}: {lines} lines")


def write_corpus(out: Path, seed: int, train_count: int, copy_count: int, held_out_count: int) -> None:
    """Writes train, copy and held_out.jsonl, and train_wide and copy_wide.jsonl: the same with wide product names."""
    if shared := shared_runs():
        raise SystemExit(f"held-out sentences share five words in a row with training sentences: {shared}")
    out.mkdir(parents=True, exist_ok=True)
    for name, maker, count, split, offset in (
        ("train", dialogue, train_count, Split(False), 0),
        ("copy", copy_exercise, copy_count, Split(False), 1),
        ("held_out", dialogue, held_out_count, Split(True), 2),
        ("train_wide", dialogue, train_count // 2, Split(False, wide=True), 3),
        ("copy_wide", copy_exercise, copy_count // 2, Split(False, wide=True), 4),
    ):
        rng = random.Random(seed * 1000 + offset)
        with open(out / f"{name}.jsonl", "w", encoding="utf-8") as f:
            for _ in range(count):
                f.write(json.dumps(maker(rng, split).__dict__, ensure_ascii=False) + "\n")
        print(f"{name}: {count} lines")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    corpus = commands.add_parser("corpus")
    corpus.add_argument("--out", type=Path, default=Path("target/support-bot"))
    corpus.add_argument("--seed", type=int, default=7)
    corpus.add_argument("--train", type=int, default=120_000)
    corpus.add_argument("--copy", type=int, default=20_000)
    corpus.add_argument("--held-out", type=int, default=2_000)
    last = commands.add_parser("last", help="the last phase's corpus, once the tokenizer is there")
    last.add_argument("--out", type=Path, default=Path("target/support-bot"))
    last.add_argument("--tokenizer", type=Path, default=Path("examples/support-bot/model/tokenizer.json"))
    last.add_argument("--seed", type=int, default=7)
    last.add_argument("--count", type=int, default=20_000)
    tickets = commands.add_parser("tickets")
    tickets.add_argument("--out", type=Path, default=Path("examples/support-bot/tickets.jsonl"))
    tickets.add_argument("--seed", type=int, default=11)
    tickets.add_argument("--count", type=int, default=204)
    args = parser.parse_args()
    if args.command == "corpus":
        write_corpus(args.out, args.seed, args.train, args.copy, args.held_out)
    elif args.command == "last":
        write_last(args.out, args.seed, args.count, args.tokenizer)
    else:
        from tickets import write_tickets

        write_tickets(args.out, args.seed, args.count)


if __name__ == "__main__":
    main()
