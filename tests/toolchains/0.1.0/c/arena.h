// The packed arena, version 1, as far as this operator needs it. The layout is in wit/released/0.1.0/tidegate.wit.

#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_NULL 0xffffffffu

enum { ARENA_PASS = 0, ARENA_DROP = 1, ARENA_REPLACE = 2, ARENA_DEAD_LETTER = 6 };
enum { ARENA_MASK_VALUE = 2 };

// Little-endian is WebAssembly's own order; the fields need not be aligned.
static inline uint32_t arena_u32(const uint8_t *at) {
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

static inline void arena_put_u32(uint8_t *at, uint32_t number) { memcpy(at, &number, sizeof number); }

static inline uint32_t arena_records(const uint8_t *batch) { return arena_u32(batch + 8); }

// The value of a record and its length; NULL for a null value, or one that is not there.
static inline const uint8_t *arena_value(const uint8_t *batch, uint32_t record, uint32_t *length) {
    const uint8_t *entry = batch + arena_u32(batch + 12) + 64 * (size_t)record;
    uint8_t present = entry[30];
    *length = arena_u32(entry + 44);
    return (present & ARENA_MASK_VALUE) && *length != ARENA_NULL ? batch + arena_u32(entry + 40) : NULL;
}

// An answer that grows as payloads are added.
struct arena_answer {
    uint8_t *bytes;
    size_t length, room;
};

// False if there is no memory for it.
static inline int arena_begin(struct arena_answer *answer, uint32_t records) {
    answer->room = 4096 + 16 + (size_t)records;
    answer->bytes = malloc(answer->room);
    if (!answer->bytes) return 0;
    answer->length = 16 + (size_t)records;
    memcpy(answer->bytes, "TGO\1", 4);
    arena_put_u32(answer->bytes + 8, records);
    arena_put_u32(answer->bytes + 12, (uint32_t)answer->length);
    memset(answer->bytes + 16, ARENA_PASS, records);
    return 1;
}

// Room for so many more bytes at the end of the payloads; NULL if there is no memory for them.
static inline uint8_t *arena_more(struct arena_answer *answer, size_t bytes) {
    if (answer->room - answer->length < bytes) {
        size_t room = 2 * answer->room + bytes;
        uint8_t *moved = realloc(answer->bytes, room);
        if (!moved) return NULL;
        answer->bytes = moved;
        answer->room = room;
    }
    uint8_t *at = answer->bytes + answer->length;
    answer->length += bytes;
    return at;
}

static inline void arena_drop(struct arena_answer *answer, uint32_t record) {
    answer->bytes[16 + record] = ARENA_DROP;
}

// Room for a new value of so many bytes; NULL if there is no memory for them.
static inline uint8_t *arena_replace_value(struct arena_answer *answer, uint32_t record, uint32_t length) {
    uint8_t *at = arena_more(answer, 5 + (size_t)length);
    if (!at) return NULL;
    answer->bytes[16 + record] = ARENA_REPLACE;
    at[0] = ARENA_MASK_VALUE;
    arena_put_u32(at + 1, length);
    return at + 5;
}

// Room for a reason of so many bytes; NULL if there is no memory for them.
static inline uint8_t *arena_dead_letter(struct arena_answer *answer, uint32_t record, uint32_t length) {
    uint8_t *at = arena_more(answer, 4 + (size_t)length);
    if (!at) return NULL;
    answer->bytes[16 + record] = ARENA_DEAD_LETTER;
    arena_put_u32(at, length);
    return at + 4;
}

static inline void arena_finish(struct arena_answer *answer) {
    arena_put_u32(answer->bytes + 4, (uint32_t)answer->length);
}
