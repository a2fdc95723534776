// Batches for tests, as the host writes them: layout 2.

#include "testing.h"

enum { HEADER = 64, ENTRY = 72 };

static bool is_countable(const tg_pair *pairs, uint32_t count) {
    if (count > TG_MAX_PAIRS) return false;
    for (uint32_t pair = 0; pair < count; pair++) {
        if (pairs[pair].name.length > TG_MAX_NAME) return false;
    }
    return true;
}

static size_t size_of_pairs(const tg_pair *pairs, uint32_t count) {
    size_t size = 0;
    for (uint32_t pair = 0; pair < count; pair++)
        size += 6 + (size_t)pairs[pair].name.length + pairs[pair].value.length;
    return size;
}

// Writes a field's bytes and its place in the entry.
static uint8_t *put_field(uint8_t *arena, uint8_t *to, uint8_t *place, tg_bytes bytes) {
    tg_put_32(place, (size_t)(to - arena));
    tg_put_32(place + 4, bytes.at ? bytes.length : UINT32_MAX);
    tg_copy(to, bytes);
    return to + bytes.length;
}

static uint8_t *put_pairs(uint8_t *arena, uint8_t *to, uint8_t *place, const tg_pair *pairs, uint32_t count) {
    tg_put_32(place, (size_t)(to - arena));
    tg_put_32(place + 4, size_of_pairs(pairs, count));
    for (uint32_t pair = 0; pair < count; pair++) {
        tg_put_16(to, pairs[pair].name.length);
        tg_put_32(to + 2, pairs[pair].value.at ? pairs[pair].value.length : UINT32_MAX);
        tg_copy(to + 6, pairs[pair].name);
        tg_copy(to + 6 + pairs[pair].name.length, pairs[pair].value);
        to += 6 + pairs[pair].name.length + pairs[pair].value.length;
    }
    return to;
}

tg_bytes tg_test_encode(const tg_test_record *records, uint32_t count, uint32_t reads, int64_t clock,
                        const uint8_t seed[16]) {
    size_t size = HEADER + 8;
    for (uint32_t index = 0; index < count; index++) {
        const tg_test_record *record = &records[index];
        if (!is_countable(record->headers, record->header_count)) return tg_null();
        if (!is_countable(record->attributes, record->attribute_count)) return tg_null();
        size += ENTRY + (size_t)record->key.length + record->value.length;
        size += size_of_pairs(record->headers, record->header_count);
        size += size_of_pairs(record->attributes, record->attribute_count);
    }
    if (size > UINT32_MAX) return tg_null();
    uint8_t *arena = (uint8_t *)tg_arena_take(&tg_test_batch_memory, size);
    memset(arena, 0, size);
    uint8_t *entry = arena + HEADER, *to = entry + ENTRY * (size_t)count;
    for (uint32_t index = 0; index < count; index++, entry += ENTRY) {
        const tg_test_record *record = &records[index];
        tg_put_64(entry, record->event_time ? (uint64_t)*record->event_time : (uint64_t)TG_NO_TIME);
        tg_put_64(entry + 8, record->id ? record->id->offset : index);
        if (record->id) {
            tg_put_64(entry + 16, record->id->emit);
            tg_put_32(entry + 24, record->id->partition);
            tg_put_16(entry + 28, record->id->source);
            entry[30] = record->id->origin;
        }
        entry[31] = (uint8_t)reads;
        // Of a field that is not read nothing is there.
        tg_put_32(entry + 44, UINT32_MAX);
        tg_put_32(entry + 52, UINT32_MAX);
        if (reads & TG_READS_KEY) to = put_field(arena, to, entry + 40, record->key);
        if (reads & TG_READS_VALUE) to = put_field(arena, to, entry + 48, record->value);
        if (reads & TG_READS_HEADERS) {
            tg_put_16(entry + 32, record->header_count);
            to = put_pairs(arena, to, entry + 56, record->headers, record->header_count);
        }
        if (reads & TG_READS_ATTRIBUTES) {
            tg_put_16(entry + 34, record->attribute_count);
            to = put_pairs(arena, to, entry + 64, record->attributes, record->attribute_count);
        }
    }
    size_t length = (size_t)(to - arena);
    memcpy(arena, "TGB\2", 4);
    tg_put_32(arena + 4, length);
    tg_put_32(arena + 8, HEADER);
    tg_put_32(arena + 16, count);
    tg_put_32(arena + 20, ENTRY);
    tg_put_32(arena + 24, HEADER);
    tg_put_64(arena + 40, (uint64_t)clock);
    memcpy(arena + 48, seed, 16);
    return tg_bytes_of(arena, length);
}
