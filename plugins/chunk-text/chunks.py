"""A text in chunks that overlap: whole sentences where they fit, else whole words."""

import unicodedata
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import List, Tuple

from sentences import Text

_JOINERS = "\u200d\ufe0e\ufe0f"


@dataclass(frozen=True)
class Cut:
    """How texts are cut: sizes are in words, or in characters."""

    size: int
    overlap: int
    by_words: bool

    def spans(self, text: Text) -> List[Tuple[int, int]]:
        """Where the chunks begin and end, in characters.

        They cover everything but white space, in order. Each ends behind the one before it and begins at most the overlap
        before its end.
        """
        if not self.by_words:
            text = _with_words_cut(text, self.size)
        spans: List[Tuple[int, int]] = []
        first = done = 0
        while done < len(text.ends):
            last = self._last(text, first)
            # The last sentence that ends within the chunk, and behind the one before it.
            place = bisect_right(text.sentences, last) - 1
            if place >= 0 and text.sentences[place] >= done:
                last = text.sentences[place]
            spans.append((text.starts[first], text.ends[last]))
            first, done = self._next(text, first, last), last + 1
        return spans

    def _last(self, text: Text, first: int) -> int:
        """The last word of the largest chunk that begins with this one."""
        if self.by_words:
            return min(first + self.size, len(text.ends)) - 1
        return bisect_right(text.ends, text.starts[first] + self.size) - 1

    def _next(self, text: Text, first: int, last: int) -> int:
        """The word that the next chunk begins with: that of a sentence, if one begins within the overlap."""
        after = last + 1
        if after == len(text.ends):
            return after
        # Within the overlap, and so that the chunk holds at least the word behind this one.
        if self.by_words:
            earliest = max(after - self.overlap, after + 1 - self.size)
        else:
            behind = max(text.ends[last] - self.overlap, text.ends[after] - self.size)
            earliest = bisect_left(text.starts, behind)
        earliest = max(earliest, first + 1)
        if earliest >= after:
            return after
        place = bisect_left(text.sentences, earliest - 1)
        begins = text.sentences[place] + 1
        return begins if begins < after else earliest


def _with_words_cut(text: Text, size: int) -> Text:
    """The text with words that are longer than a chunk cut."""
    if all(end - start <= size for start, end in zip(text.starts, text.ends)):
        return text
    cut = Text(text.text, [], [], [])
    sentences = set(text.sentences)
    for word, (start, end) in enumerate(zip(text.starts, text.ends)):
        while end - start > size:
            border = _border(text.text, start, size)
            cut.starts.append(start)
            cut.ends.append(border)
            start = border
        cut.starts.append(start)
        cut.ends.append(end)
        if word in sentences:
            cut.sentences.append(len(cut.ends) - 1)
    return cut


def _border(text: str, start: int, size: int) -> int:
    """Where a word that is too long is cut: not before a mark that belongs to the character before it."""
    at = start + size
    while at > start and (unicodedata.combining(text[at]) or text[at] in _JOINERS or text[at - 1] == "\u200d"):
        at -= 1
    return at if at > start else start + size
