// The packed arena, layout 2, as far as this operator needs it: see wit/README.md.

#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_NULL 0xffffffffu

enum { ARENA_PASS = 0, ARENA_DROP = 1, ARENA_REPLACE = 2, ARENA_DEAD_LETTER = 6 };
enum { ARENA_MASK_VALUE = 2, ARENA_ANSWER_HEADER = 40 };
// Of flags and of kinds of sections: an arena with one that a reader does not know is not to be read.
#define ARENA_CRITICAL_FLAGS 0xffff0000u
#define ARENA_CRITICAL_KIND 0x80000000u

// Little-endian is WebAssembly's own order; the fields need not be aligned.
static inline uint32_t arena_u32(const uint8_t *at) {
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

static inline void arena_put_u32(uint8_t *at, uint32_t number) { memcpy(at, &number, sizeof number); }

// Whether there is nothing in a batch that this reader does not know and has to.
static inline int arena_is_known(const uint8_t *batch) {
    if (arena_u32(batch + 12) & ARENA_CRITICAL_FLAGS) return 0;
    for (uint32_t section = 0; section < arena_u32(batch + 28); section++) {
        const uint8_t *entry = batch + arena_u32(batch + 32) + 16 * (size_t)section;
        if (arena_u32(entry) >= ARENA_CRITICAL_KIND) return 0;
    }
    return 1;
}

static inline uint32_t arena_records(const uint8_t *batch) { return arena_u32(batch + 16); }

// The value of a record and its length; NULL for a null value, or one that is not there.
static inline const uint8_t *arena_value(const uint8_t *batch, uint32_t record, uint32_t *length) {
    const uint8_t *entry = batch + arena_u32(batch + 24) + arena_u32(batch + 20) * (size_t)record;
    uint8_t present = entry[31];
    *length = arena_u32(entry + 52);
    return (present & ARENA_MASK_VALUE) && *length != ARENA_NULL ? batch + arena_u32(entry + 48) : NULL;
}

// An answer that grows as payloads are added.
struct arena_answer {
    uint8_t *bytes;
    size_t length, room;
    uint32_t records;
};

// False if there is no memory for it.
static inline int arena_begin(struct arena_answer *answer, uint32_t records) {
    answer->records = records;
    answer->length = ARENA_ANSWER_HEADER + (size_t)records;
    answer->room = 4096 + answer->length;
    answer->bytes = calloc(answer->room, 1);
    if (!answer->bytes) return 0;
    memcpy(answer->bytes, "TGO\2", 4);
    arena_put_u32(answer->bytes + 8, ARENA_ANSWER_HEADER);
    arena_put_u32(answer->bytes + 16, records);
    arena_put_u32(answer->bytes + 20, ARENA_ANSWER_HEADER);
    arena_put_u32(answer->bytes + 24, (uint32_t)answer->length);
    memset(answer->bytes + ARENA_ANSWER_HEADER, ARENA_PASS, records);
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
    answer->bytes[ARENA_ANSWER_HEADER + record] = ARENA_DROP;
}

// Room for a new value of so many bytes; NULL if there is no memory for them.
static inline uint8_t *arena_replace_value(struct arena_answer *answer, uint32_t record, uint32_t length) {
    uint8_t *at = arena_more(answer, 5 + (size_t)length);
    if (!at) return NULL;
    answer->bytes[ARENA_ANSWER_HEADER + record] = ARENA_REPLACE;
    at[0] = ARENA_MASK_VALUE;
    arena_put_u32(at + 1, length);
    return at + 5;
}

// Room for a reason of so many bytes; NULL if there is no memory for them.
static inline uint8_t *arena_dead_letter(struct arena_answer *answer, uint32_t record, uint32_t length) {
    uint8_t *at = arena_more(answer, 4 + (size_t)length);
    if (!at) return NULL;
    answer->bytes[ARENA_ANSWER_HEADER + record] = ARENA_DEAD_LETTER;
    arena_put_u32(at, length);
    return at + 4;
}

static inline void arena_finish(struct arena_answer *answer) {
    arena_put_u32(answer->bytes + 4, (uint32_t)answer->length);
    arena_put_u32(answer->bytes + 28, (uint32_t)answer->length - ARENA_ANSWER_HEADER - answer->records);
}
