// What the files of the harness share.

#ifndef TG_TESTING_H
#define TG_TESTING_H

#include "../tg_harness.h"
#include "inside.h"

// Memory of one batch and its answer, and of a file of cases.
extern tg_arena tg_test_batch_memory;
extern tg_arena tg_test_case_memory;

static inline tg_bytes tg_copy_into(tg_arena *arena, tg_bytes bytes) {
    if (!bytes.at) return bytes;
    uint8_t *copy = (uint8_t *)tg_arena_take(arena, bytes.length);
    tg_copy(copy, bytes);
    return tg_bytes_of(copy, bytes.length);
}

// Whether the host takes what an operator that has begun says of itself; if not the failure is set.
bool tg_test_is_declared(const tg_operator *with);
// A batch as the host writes it, with what the operator reads; null if a record has more than a record can have.
tg_bytes tg_test_encode(const tg_test_record *records, uint32_t count, uint32_t reads, int64_t clock,
                        const uint8_t seed[16]);
// Reads an answer. Null, or what the host would refuse.
const char *tg_test_decode(tg_bytes answer, uint32_t records, tg_test_outcome *outcomes);
// Whether what the outcomes make of the records can be; if not the failure is set.
bool tg_test_can_be(const tg_test_record *records, uint32_t count, const tg_test_outcome *outcomes);
// Forgets or adds what an answer measured; null, or what the host would refuse.
void tg_test_forget_measured(void);
const char *tg_test_measure(tg_bytes answer, uint32_t records, const tg_test_outcome *outcomes);
// A test that failed, with why it did.
void tg_test_failed(const char *format, ...) TG_PRINTF(1, 2);
void tg_test_ran(void);
// How many failures cases have, which are not printed and do not count: for tests of the harness.
unsigned tg_test_failures_of_cases(const char *pattern);

#endif
