"""Writes sentences with phone numbers that redact-pii's rules were not written on, for its evaluate example.

The numbers come from the PyPI package Faker (`pip install Faker==40.54.0`) in 14 locales, the
sentences are ours. Usage: python phones.py > phones.json, then

    cargo run --release -p redact-pii --example evaluate -- phones.json --split all
"""

import json
import random

from faker import Faker

SENTENCES = [
    "Hi, could you ring me on {} when the parcel is in?",
    "My number is {}.",
    "{} is where my wife can be reached.",
    "Please text {} instead of the landline.",
    "Updated contact: {}",
    "Fax the form to {} before Friday",
    "I called from {} yesterday and nobody picked up.",
    "Reach us at {} or by post.",
]
LOCALES = "en_US en_GB de_DE fr_FR it_IT es_ES nl_NL pl_PL pt_BR sv_SE ja_JP en_AU en_CA en_IN".split()


def rows() -> list[dict]:
    """Twenty labelled sentences for each locale; the same every time for one version of Faker."""
    random.seed(5)
    made = []
    for locale in LOCALES:
        faker = Faker(locale)
        Faker.seed(7)
        for _ in range(20):
            number, sentence = faker.phone_number(), random.choice(SENTENCES)
            start = sentence.index("{}")
            label = {
                "entity_type": "PHONE_NUMBER",
                "entity_value": number,
                "start_position": start,
                "end_position": start + len(number),
            }
            text = sentence.replace("{}", number)
            made.append({"full_text": text, "masked": sentence, "spans": [label], "template_id": len(made)})
    return made


if __name__ == "__main__":
    print(json.dumps(rows()))
