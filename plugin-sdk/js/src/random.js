// Random numbers that a record always draws alike: the numbers of the SDKs of other languages, bit for bit.

const GOLDEN = 0x9e3779b97f4a7c15n;
const wrap = (number) => BigInt.asUintN(64, number);
const rotate = (number, by) => wrap((number << by) | (number >> (64n - by)));

/** A step of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
function mix(number) {
  number = wrap(number + GOLDEN);
  number = wrap((number ^ (number >> 30n)) * 0xbf58476d1ce4e5b9n);
  number = wrap((number ^ (number >> 27n)) * 0x94d049bb133111ebn);
  return number ^ (number >> 31n);
}

/**
 * Random numbers of one record, drawn from the seed of its slot and its id: a record that comes again draws the same.
 * Not for secrets: who knows the slot's name and the record's id knows what is drawn.
 */
export class Random {
  #state;

  /** `low` and `high` are the halves of the seed as unsigned 64-bit numbers. */
  constructor(low, high, id) {
    const origin = id.origin === "timer" ? 1n : 0n;
    const place = wrap((BigInt(id.partition) << 32n) | (BigInt(id.source) << 8n) | origin);
    let hash = 0n;
    for (const part of [low, high, place, id.offset, id.emit]) hash = mix(hash ^ part);
    const state = [];
    for (let counter = hash; state.length < 4; ) {
      counter = wrap(counter + GOLDEN);
      state.push(mix(counter));
    }
    this.#state = state;
  }

  /** 64 random bits: xoshiro256++ (Blackman, Vigna: Scrambled linear pseudorandom number generators, 2021). */
  bits() {
    let [a, b, c, d] = this.#state;
    const drawn = wrap(rotate(wrap(a + d), 23n) + a);
    const shifted = wrap(b << 17n);
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = rotate(d, 45n);
    this.#state = [a, b, c, d];
    return drawn;
  }

  /** A number from 0 to 1, without 1. */
  unit() {
    return Number(this.bits() >> 11n) / 2 ** 53;
  }

  /** A whole number below this, at most 2^53; 0 below 0. */
  below(end) {
    if (!(Number.isSafeInteger(end) && end >= 0)) {
      throw new RangeError(`random.below(${end}): expected a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`);
    }
    // Lemire: Fast random integer generation in an interval, 2019. What would favour some numbers is drawn again.
    const wanted = BigInt(end);
    let wide = this.bits() * wanted;
    if (wrap(wide) < wanted) {
      const favoured = wrap(-wanted) % wanted;
      while (wrap(wide) < favoured) wide = this.bits() * wanted;
    }
    return Number(wide >> 64n);
  }

  /** Whether something happens that has this probability. */
  chance(probability) {
    return this.unit() < probability;
  }
}
