// How many headers and attributes records have when they were changed: more than can be counted is a dead letter of the
// host, and a mistake in a test.

#include "testing.h"

// Whether a change at or behind `begin` takes away all of a name.
static bool is_taken_away(tg_bytes name, const tg_test_change *changes, uint32_t begin, uint32_t count) {
    for (; begin < count; begin++) {
        if (changes[begin].operation != TG_CHANGE_ADD && tg_same(changes[begin].name, name)) return true;
    }
    return false;
}

static bool are_countable(uint32_t record, const char *what, const tg_pair *pairs, uint32_t pair_count,
                          const tg_test_change *changes, uint32_t change_count) {
    // Only then is it worth a look at each of them.
    if (change_count == 0 || (uint64_t)pair_count + change_count <= TG_MAX_PAIRS) return true;
    uint32_t count = 0;
    for (uint32_t pair = 0; pair < pair_count; pair++) {
        count += !is_taken_away(pairs[pair].name, changes, 0, change_count);
    }
    for (uint32_t change = 0; change < change_count; change++) {
        if (changes[change].operation == TG_CHANGE_REMOVE) continue;
        count += !is_taken_away(changes[change].name, changes, change + 1, change_count);
    }
    if (count <= TG_MAX_PAIRS) return true;
    return tg_refuse(TG_PERMANENT, "refused",
                     "the host refuses the answer: record %u with %u %s exceeds the limit of %d", record + 1, count, what,
                     TG_MAX_PAIRS);
}

bool tg_test_can_be(const tg_test_record *records, uint32_t count, const tg_test_outcome *outcomes) {
    for (uint32_t index = 0; index < count; index++) {
        const tg_test_record *record = &records[index];
        for (uint32_t at = 0; at < outcomes[index].patch_count; at++) {
            const tg_test_patch *patch = &outcomes[index].patches[at];
            if (!are_countable(index, "headers", record->headers, record->header_count, patch->headers,
                               patch->header_count) ||
                !are_countable(index, "attributes", record->attributes, record->attribute_count, patch->attributes,
                               patch->attribute_count)) {
                return false;
            }
        }
    }
    return true;
}
