// Upper-cases values; see ../../README.md for what it does. The functions that the host calls are written by hand, as the
// canonical ABI of the component model has them: `wasm-tools component embed` adds what they are of.
//
// With -DSTDIO it uses the C library as on a machine of its own, which makes it a module for WASI preview 1.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"

#ifdef STDIO
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#define NAME "uppercase-c-stdio"
#else
#define NAME "uppercase-c"
#endif

#define OPERATOR "tidegate:operator/packed@1.0.0#"
#define EXPORT(name) __attribute__((export_name(name)))

struct text {
    const void *at;
    uint32_t length;
};
#define TEXT(literal) {literal, sizeof(literal) - 1}
#define REASON "the record asks for it"

EXPORT("cabi_realloc")
void *cabi_realloc(void *old, size_t had, size_t align, size_t size) {
    (void)had, (void)align; // malloc aligns to 16, and nothing asks for more.
    if (size == 0) return (void *)align;
    void *at = realloc(old, size);
    if (!at) abort();
    return at;
}

struct description {
    struct text name, version, config_schema;
    uint8_t reads;
    struct text outputs, metrics, handlers, extensions;
};

struct failure {
    uint8_t class;
    struct text code, message;
};

// `result<T, failure>` for each T.
static struct {
    uint8_t is_failure;
    union {
        struct description description;
        struct text bytes;
        struct failure failure;
    };
} result;

static const void *fails(struct failure failure) {
    result.is_failure = 1;
    result.failure = failure;
    return &result;
}

enum { PERMANENT = 1 };
enum { READS_VALUE = 2 };

EXPORT(OPERATOR "describe")
const void *describe(char *config, size_t length) {
    (void)length;
    free(config);
    result.is_failure = 0;
    result.description = (struct description){
        .name = TEXT(NAME), .version = TEXT("1.0.0"), .config_schema = TEXT("{}"), .reads = READS_VALUE};
    return &result;
}

EXPORT(OPERATOR "init")
const void *init(char *config, size_t length) {
    (void)length;
    free(config);
    result.is_failure = 0;
    return &result;
}

static int begins(const uint8_t *value, uint32_t length, const char *word) {
    return length >= strlen(word) && memcmp(value, word, strlen(word)) == 0;
}

#ifdef STDIO
// Sleeps an hour and says how long it was by its own clock.
static int sleep_an_hour(struct arena_answer *answer, uint32_t record) {
    struct timespec began, ended;
    char text[32];
    clock_gettime(CLOCK_MONOTONIC, &began);
    sleep(3600);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    int length = snprintf(text, sizeof text, "SLEPT %lld", (long long)(ended.tv_sec - began.tv_sec));
    uint8_t *to = arena_replace_value(answer, record, (uint32_t)length);
    if (to) memcpy(to, text, (size_t)length);
    return to != NULL;
}
#endif

enum done { DONE, NO_MEMORY, FAILS };

static enum done answer_for(struct arena_answer *answer, const uint8_t *batch, uint32_t record) {
    static const char reason[] = REASON;
    uint32_t length;
    const uint8_t *value = arena_value(batch, record, &length);
    if (!value) return DONE;
    if (begins(value, length, "drop")) {
        arena_drop(answer, record);
        return DONE;
    }
    if (begins(value, length, "dead")) {
        uint8_t *to = arena_dead_letter(answer, record, sizeof reason - 1);
        if (to) memcpy(to, reason, sizeof reason - 1);
        return to ? DONE : NO_MEMORY;
    }
    if (begins(value, length, "fail")) return FAILS;
#ifdef STDIO
    if (begins(value, length, "sleep")) return sleep_an_hour(answer, record) ? DONE : NO_MEMORY;
    if (begins(value, length, "print")) fprintf(stderr, "a line of the operator\n");
#endif
    uint8_t *to = arena_replace_value(answer, record, length);
    if (!to) return NO_MEMORY;
    for (uint32_t n = 0; n < length; n++) to[n] = value[n] - (value[n] >= 'a' && value[n] <= 'z' ? 32 : 0);
    return DONE;
}

EXPORT(OPERATOR "process")
const void *process(uint8_t *batch, size_t length) {
    (void)length;
    struct arena_answer answer;
    int is_known = arena_is_known(batch);
    uint32_t records = is_known ? arena_records(batch) : 0;
    enum done done = arena_begin(&answer, records) ? DONE : NO_MEMORY;
    for (uint32_t record = 0; done == DONE && record < records; record++) done = answer_for(&answer, batch, record);
    if (done == NO_MEMORY) abort();
    free(batch);
    if (done == FAILS || !is_known) {
        static const struct failure asked_for = {PERMANENT, TEXT("asked-for"), TEXT(REASON)};
        static const struct failure unknown = {
            PERMANENT, TEXT("unknown-arena"), TEXT("the batch has what this operator does not know")};
        free(answer.bytes);
        return fails(is_known ? asked_for : unknown);
    }
    arena_finish(&answer);
    result.is_failure = 0;
    result.bytes.at = answer.bytes;
    result.bytes.length = (uint32_t)answer.length;
    return &result;
}

EXPORT("cabi_post_" OPERATOR "process")
void process_post_return(void *returned) {
    (void)returned;
    if (!result.is_failure) free((void *)result.bytes.at);
}
