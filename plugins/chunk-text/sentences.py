"""Words and sentences of a text, in any script.

A text is cut into words, each with the white space before it, so that the words together are the text. A character of a
script that writes no spaces, Chinese or Japanese, is a word by itself.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from operator import sub
from typing import AbstractSet, List

# Kana, the ideographs of the first plane, those for compatibility, and those of the planes behind.
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Ends of sentences that need no space behind them, and those that do, in Latin, Greek, Arabic, Urdu, Devanagari, Armenian,
# Ethiopic, Burmese, Khmer and others.
_FULL_ENDS = "。！？｡．"
_ENDS = ".!?…‽⁇⁈⁉؟۔।॥։።፧፨၊။។៕᙮᠃᠉"
_CLOSING = "\"'”’»›)\\]}」』】〉》〕）］｝〞"

_WORD = re.compile(
    rf"\s*(?:[{_IDEOGRAPHS}]|[^\s{_IDEOGRAPHS}{_FULL_ENDS}]*[{_FULL_ENDS}]+[{_CLOSING}]*|[^\s{_IDEOGRAPHS}{_FULL_ENDS}]+)"
)
_END = re.compile(
    rf"[{_FULL_ENDS}]+[{_CLOSING}]*"
    # From the first of several marks alone: what no space follows is not looked at from each of them.
    rf"|(?<![{_ENDS}])[{_ENDS}]+[{_CLOSING}]*(?=\s|\Z)"
    # A line that is empty ends a sentence too, and a heading has no full stop.
    r"|(?<=\S)(?=[^\S\n]*\n[^\S\n]*\n)"
)
_LAST_WORD = re.compile(r"[^\s\"'“‘«(\[{]*\Z")

# What a full stop belongs to, in English, German, French and Spanish, in lower case.
ABBREVIATIONS = frozenset(
    "adm al approx apr art aug av bros bzw ca capt cf chap co col corp dec dept dr ed eds eg e.g esp est etc eq evtl feb fig figs "
    "ft gen ggf gov hon hr hrsg ib id ie i.e inc inkl insb jan jr jul jun lt ltd m maj mar max med min mlle mme mmes mr mrs ms "
    "mt mw nov nr no nos núm obs oct okt op p pag p.ex pp prof pvt rev s sec sen sep sept sgt sr sra srta st str s.o s.u tel u.a "
    "ud uds usw u.s u.s.a v vgl vol vols vs z.b z.t zzgl".split()
)


@dataclass(frozen=True)
class Text:
    """A text with the places of its words and sentences, in characters."""

    text: str
    starts: List[int]
    """Where each word begins."""
    ends: List[int]
    """Where each word ends."""
    sentences: List[int]
    """The words that a sentence ends with, by their index, ascending; the last word is one of them."""


def read(text: str, abbreviations: AbstractSet[str] = ABBREVIATIONS) -> Text:
    """Finds the words and sentences of a text."""
    # White space with no word behind it would be looked at from each of its characters.
    words = _WORD.findall(text.rstrip())
    ends = list(accumulate(map(len, words)))
    starts = list(map(sub, ends, map(len, map(str.lstrip, words))))
    sentences: List[int] = []
    for match in _END.finditer(text):
        word = bisect_left(ends, match.end())
        is_border = word < len(ends) and ends[word] == match.end()
        is_new = not sentences or sentences[-1] != word
        if is_border and is_new and not _goes_on(text, match, abbreviations):
            sentences.append(word)
    if ends and (not sentences or sentences[-1] != len(ends) - 1):
        sentences.append(len(ends) - 1)
    return Text(text, starts, ends, sentences)


def _goes_on(text: str, match: "re.Match[str]", abbreviations: AbstractSet[str]) -> bool:
    """Whether a full stop belongs to a word and not to a sentence."""
    if not match.group().startswith(".") or match.group().startswith(".."):
        return False
    following = text[match.end() : match.end() + 64].lstrip()[:1]
    if following.islower():
        return True
    before = _LAST_WORD.search(text[max(0, match.start() - 24) : match.start()])
    word = before.group().lower() if before else ""
    # An initial, as in J. S. Bach, and a number in front of a heading or a date, as in 3. Oktober.
    is_initial = len(word) == 1 and word.isalpha()
    is_number = word.isdecimal() and len(word) < 3
    return is_initial or is_number or word in abbreviations
