"""Words and sentences of a text, in any script.

A text is cut into words, each with the white space before it, so that the words together are the text. A character of a
script that writes no spaces, Chinese or Japanese, is a word by itself.
"""

import re
from bisect import bisect_left, bisect_right
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

_SPACELESS = re.compile(rf"[{_IDEOGRAPHS}{_FULL_ENDS}]")
_SPACED_WORD = re.compile(r"\s*\S+")
_WORD = re.compile(
    rf"\s*(?:[{_IDEOGRAPHS}]|[^\s{_IDEOGRAPHS}{_FULL_ENDS}]*[{_FULL_ENDS}]+[{_CLOSING}]*|[^\s{_IDEOGRAPHS}{_FULL_ENDS}]+)"
)
_FULL_END = re.compile(rf"[{_FULL_ENDS}]+[{_CLOSING}]*")
# From the first of several marks alone: what no space follows is not looked at from each of them.
_END = re.compile(rf"[{_ENDS}](?<![{_ENDS}][{_ENDS}])[{_ENDS}]*[{_CLOSING}]*(?=\s|\Z)")
# A line that is empty ends a sentence too, and a heading has no full stop.
_EMPTY_LINE = re.compile(r"\n[^\S\n]*\n")
_OPENING = "\"'“‘«([{"

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
    spaceless = not text.isascii() and _SPACELESS.search(text) is not None
    # White space with no word behind it would be looked at from each of its characters.
    words = (_WORD if spaceless else _SPACED_WORD).findall(text.rstrip())
    ends = list(accumulate(map(len, words)))
    starts = list(map(sub, ends, map(len, map(str.lstrip, words))))
    if not ends:
        return Text(text, starts, ends, [])
    sentences = {len(ends) - 1}
    for match in _END.finditer(text):
        start, end = match.span()
        word = bisect_left(ends, end)
        if word == len(ends) or ends[word] != end:
            continue
        if text[start] != "." or not _goes_on(text, starts[word], start, end, abbreviations):
            sentences.add(word)
    for match in _EMPTY_LINE.finditer(text):
        word = bisect_right(ends, match.start()) - 1
        if word >= 0:
            sentences.add(word)
    if spaceless:
        for match in _FULL_END.finditer(text):
            word = bisect_left(ends, match.end())
            if word < len(ends) and ends[word] == match.end():
                sentences.add(word)
    return Text(text, starts, ends, sorted(sentences))


def _goes_on(text: str, word: int, stop: int, end: int, abbreviations: AbstractSet[str]) -> bool:
    """Whether the full stop of a word that begins there belongs to the word and not to a sentence."""
    if text[stop : stop + 2] == "..":
        return False
    if text[end : end + 64].lstrip()[:1].islower():
        return True
    before = text[max(word, stop - 24) : stop].lstrip(_OPENING).lower()
    if len(before) < 3 and (before.isdecimal() or len(before) == 1 and before.isalpha()):
        # A number in front of a heading or a date, as in 3. Oktober, and an initial, as in J. S. Bach.
        return True
    return before in abbreviations
