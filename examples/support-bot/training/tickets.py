"""The demo's tickets: held-out templates with invented personal data, hand-written tickets, three bad lines."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

import templates as T
from generate import FIRST_NAMES, LAST_NAMES, Split, Values, compose_text, order, product

CARDS = ("4111 1111 1111 1111", "5555 5555 5555 4444", "4242424242424242", "6011-1111-1111-1117", "3782 822463 10005")
IBANS = (
    "DE89 3704 0044 0532 0130 00", "GB82 WEST 1234 5698 7654 32", "NL91 ABNA 0417 1643 00",
    "FR14 2004 1010 0505 0001 3M02 606", "CH93 0076 2011 6238 5295 7",
)
MAKERS = (
    "Norvale", "Quillo", "Brightmoor", "Vantera", "Oskyo", "Larkspur", "Zephyrine", "Umbrio", "Fjordly", "Pixwell", "Tamarind",
    "Hexaloop", "Wrenfield", "Auralis", "Bluffton", "Sorrelby", "Yondero", "Calyx", "Ibexo", "Muninn",
)
SSNS = ("219-09-9999", "123-45-6789", "078-05-1120")

# (product, order, text); {first}, {name}, {email}, {phone} are the customer's.
HAND_WRITTEN = (
    ("Waffle Iron", "A-48213", "hi, my waffle iron still isnt here!! order A-48213, was promised for tuesday. mail me: {email}"),
    ("Featherlight Umbrella", "100-2837465", "The umbrella turned inside out on day one and now two ribs are snapped. I want my money back. {name}"),
    ("", "", "Why is my top-up still not in my account? I tried three times with 4111 1111 1111 1111."),
    ("", "", "I think I dropped my bank card somewhere at the station, can you stop it before someone uses it? You can call me on {phone}."),
    ("", "", "Exchange rate I got in Lisbon yesterday was way off from what your app shows. What's going on?"),
    ("Copper Milk Frother", "TG58291", "Received a garlic press instead of the milk frother. Nice press, but no. Please send what I ordered. Cheers, {first}"),
    ("Telescope Ultra", "#90211", "Two payments of 249.00 for one telescope?! Card ends the same both times: 5555 5555 5555 4444. Please return one of them."),
    ("Walnut Desk Organiser", "SO-2291-07", "Could I have the invoice with our company name, Harbour & Vale Ltd? Send to {email} please."),
    ("Turquoise Hammock", "#A-7710", "Just wanted to say the hammock is the best thing in our garden. {name} and family"),
    ("Sewing Machine 640", "W-30118", "the needle keeps hitting the plate and then it just stops. three weeks old. warranty?"),
    ("", "", "Log shows a sign-in from 203.0.113.77 that was not me, and now my password does not work."),
    ("Bread Maker Duo", "HX-402-118", "I'm moving on Friday. Please deliver to 4 Mill Lane, Bath and not to the old flat. Phone {phone}."),
    ("", "", "Your importer at https://shopuser:hunter2@files.example.org/orders.csv gives me an error, can someone look?"),
    ("Paddle Board V8", "55120-9", "You idiots sent the paddle board to the wrong town AGAIN."),
    ("Snow Shovel", "BK77120", "1d1ots. the shovel handle broke on the first day, what kind of m0r0ns sell this"),
    ("Vintage Radio", "A-50077", "This is the third mail. You stupid people never answer, I want a manager."),
    ("Quilted Picnic Basket", "7A-3310", "Shut up with your automatic replies you 1d10t b0t and cancel my order!"),
    ("", "", "Transfer to DE89 3704 0044 0532 0130 00 pending since Monday, landlord is getting nervous. SSN 219-09-9999 in case you need it."),
)

# Sentences that only tickets have, so that every kind of personal data comes up now and then.
ASIDES = (
    "My SSN is {ssn}, should you need it.", "The sign-in came from {ip}.", "Card used: {card}.", "You have my IBAN {iban} on file.",
    "Social security number {ssn}.", "I wrote from {ip} this morning.",
)


def person(rng: random.Random, taken: set[str]) -> str:
    """An invented full name that no other customer has."""
    while (name := f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}") in taken:
        pass
    taken.add(name)
    return name


def personal_values(rng: random.Random, name: str, number: int, split: Split) -> Values:
    """Invented personal data: example domains, fictional phone numbers, published test numbers, documentation addresses."""
    first, last = name.lower().split(" ", 1)
    line = 100 + number % 100
    return Values(
        name=name, product=product(rng, split), order=order(rng, split),
        email=rng.choice((f"{first}.{last}@example.com", f"{first}{number}@example.org", f"{first[0]}.{last}@mail.example.com")),
        phone=rng.choice((f"555-0{line}", f"(202) 555-0{line}", f"+1 415-555-0{line}", f"+1 (312) 555 0{line}")),
        card=rng.choice(CARDS), iban=rng.choice(IBANS), ssn=rng.choice(SSNS),
        ip=rng.choice((f"192.0.2.{number + 3}", f"198.51.100.{number + 7}", f"203.0.113.{number + 11}", f"2001:db8::{number:x}")),
    )


def write_tickets(out: Path, seed: int, count: int) -> None:
    """Writes the tickets in order of time. Three lines are bad on purpose: 61, 122 and 171."""
    rng = random.Random(seed)
    split = Split(True, MAKERS)
    taken: set[str] = set()
    customers = [(f"c-{i + 1}", person(rng, taken), i) for i in range(40)]
    hand = {13 + 11 * i: row for i, row in enumerate(HAND_WRITTEN)}
    intents = [i for i in T.INTENTS for _ in range(1 + i.shop)]
    at = datetime(2026, 3, 2, 8, 0, 0, tzinfo=timezone.utc)
    lines: list[str] = []
    for n in range(1, count + 1):
        key, name, number = rng.choice(customers)
        values = personal_values(rng, name, number, split)
        at += timedelta(seconds=rng.randrange(2, 95))
        if n in hand:
            product_, order_, text = hand[n]
            text = text.format(first=name.split()[0], name=name, email=values.email, phone=values.phone)
        else:
            intent = rng.choice(intents)
            has_product, has_order = rng.random() < (0.9 if intent.shop else 0.15), rng.random() < (0.88 if intent.shop else 0.12)
            text = compose_text(rng, intent, values, split, has_product, has_order, pii=0.45)
            if rng.random() < 0.12:
                aside = rng.choice(ASIDES)
                text += " " + aside.format(ssn=values.ssn, ip=values.ip, card=values.card, iban=values.iban)
            product_, order_ = values.product if has_product else "", values.order if has_order else ""
        record = {
            "id": f"T-{n:04d}", "customer": key, "name": name, "product": product_, "order": order_, "text": text,
            "at": at.isoformat().replace("+00:00", "Z"),
        }
        if n in (122, 171):
            del record["text"]
        line = json.dumps(record, ensure_ascii=False)
        lines.append(line[: len(line) // 2] if n == 61 else line)
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} lines in {out}")
