"""Random numbers that a record always draws alike."""

from __future__ import annotations

_ALL = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _mix(number: int) -> int:
    """A step of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)."""
    number = (number + _GOLDEN) & _ALL
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _ALL
    return number ^ (number >> 31)


def _turned(number: int, bits: int) -> int:
    return ((number << bits) | (number >> (64 - bits))) & _ALL


class Random:
    """Random numbers of one record, drawn from the seed of its slot and its identity.

    A record that comes again, after a retry, in smaller batches or when the host is started again, draws the same. Two
    records, and two slots, draw differently. Not for secrets: who knows the slot's name and the identity knows what is
    drawn.
    """

    __slots__ = ("_state",)

    def __init__(self, seed: bytes, origin: int, source: int, partition: int, offset: int, emit: int) -> None:
        place = partition << 32 | source << 8 | origin
        number = 0
        for part in (int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:], "little"), place, offset, emit):
            number = _mix(number ^ part)
        state = []
        for _ in range(4):
            number = (number + _GOLDEN) & _ALL
            state.append(_mix(number))
        self._state = state

    def bits(self) -> int:
        """64 random bits: xoshiro256++ (Blackman, Vigna: Scrambled linear pseudorandom number generators, 2021)."""
        a, b, c, d = self._state
        drawn = (_turned((a + d) & _ALL, 23) + a) & _ALL
        c ^= a
        d ^= b
        self._state = [a ^ d, b ^ c, c ^ ((b << 17) & _ALL), _turned(d, 45)]
        return drawn

    def unit(self) -> float:
        """A number from 0 to 1, without 1."""
        return (self.bits() >> 11) / (1 << 53)

    def below(self, end: int) -> int:
        """A whole number from 0 that is below this, which is at most 2^64; 0 below 0."""
        # Lemire: Fast random integer generation in an interval, 2019. What would favour some numbers is drawn again.
        wide = self.bits() * end
        if wide & _ALL < end:
            favoured = (-end & _ALL) % end
            while wide & _ALL < favoured:
                wide = self.bits() * end
        return wide >> 64

    def chance(self, probability: float) -> bool:
        """Whether something happens that has this probability."""
        return self.unit() < probability
