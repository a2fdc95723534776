// What is read from a record and is more than a view of it.

#include "inside.h"

void tg_outside(void) { tg_end("a field of a record does not lie within its batch"); }

bool tg_text(tg_record *record, tg_bytes *text) {
    tg_bytes value = tg_value(record);
    if (!tg_is_utf8(value)) {
        tg_dead_letter(record, tg_str("value is not UTF-8 text"));
        return false;
    }
    *text = value;
    return true;
}

bool tg_json_value(tg_record *record, tg_json *json) {
    tg_bytes value = tg_value(record);
    if (!value.at) {
        tg_dead_letter(record, tg_str("value is not JSON: it is null"));
        return false;
    }
    uint32_t at;
    const char *wrong = tg_json_read(value, json, &at);
    if (!wrong) return true;
    tg_dead_letter_of(record, "value is not JSON: %s at byte %u", wrong, at);
    return false;
}

// A step of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
static uint64_t mix(uint64_t number) {
    number += UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

tg_random tg_random_of(const tg_record *record) {
    tg_id id = tg_identity(record);
    uint64_t place = (uint64_t)id.partition << 32 | (uint64_t)id.source << 8 | id.origin;
    uint64_t parts[] = {tg_read_64(record->arena + 48), tg_read_64(record->arena + 56), place, id.offset, id.emit};
    uint64_t counter = 0;
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) counter = mix(counter ^ parts[part]);
    tg_random random;
    for (int word = 0; word < 4; word++) {
        counter += UINT64_C(0x9e3779b97f4a7c15);
        random.state[word] = mix(counter);
    }
    return random;
}

static uint64_t rotated(uint64_t number, int by) { return number << by | number >> (64 - by); }

// xoshiro256++ (Blackman, Vigna: Scrambled linear pseudorandom number generators, 2021).
uint64_t tg_random_bits(tg_random *random) {
    uint64_t *s = random->state;
    uint64_t drawn = rotated(s[0] + s[3], 23) + s[0];
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotated(s[3], 45);
    return drawn;
}

double tg_random_unit(tg_random *random) { return (double)(tg_random_bits(random) >> 11) / 9007199254740992.0; }

// The product of two numbers: its upper and its lower half.
static uint64_t product(uint64_t one, uint64_t other, uint64_t *low) {
    uint64_t a = one >> 32, b = one & UINT32_MAX, c = other >> 32, d = other & UINT32_MAX;
    uint64_t lower = b * d, middle = a * d + (lower >> 32), rest = b * c + (middle & UINT32_MAX);
    *low = rest << 32 | (lower & UINT32_MAX);
    return a * c + (middle >> 32) + (rest >> 32);
}

uint64_t tg_random_below(tg_random *random, uint64_t end) {
    // Lemire: Fast random integer generation in an interval, 2019. What would favour some numbers is drawn again.
    uint64_t low, high = product(tg_random_bits(random), end, &low);
    if (low < end) {
        uint64_t favoured = (0 - end) % end;
        while (low < favoured) high = product(tg_random_bits(random), end, &low);
    }
    return high;
}

bool tg_random_chance(tg_random *random, double probability) { return tg_random_unit(random) < probability; }
