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

#define OPERATOR "tidegate:operator/operator@0.1.0#"
#define EXPORT(name) __attribute__((export_name(name)))

struct text {
    const void *at;
    uint32_t length;
};
#define TEXT(literal) {literal, sizeof(literal) - 1}

EXPORT("cabi_realloc")
void *cabi_realloc(void *old, size_t had, size_t align, size_t size) {
    (void)had, (void)align; // malloc aligns to 16, and nothing asks for more.
    if (size == 0) return (void *)align;
    void *at = realloc(old, size);
    if (!at) abort();
    return at;
}

EXPORT(OPERATOR "describe")
const void *describe(void) {
    static const struct text reads[] = {TEXT("value")};
    static const struct {
        struct text name, version, config_schema, reads, outputs;
    } description = {TEXT(NAME), TEXT("1.0.0"), TEXT("{}"), {reads, 1}, {NULL, 0}};
    return &description;
}

// `result<T, string>`, of which no T is larger than a string.
static struct {
    uint8_t is_error;
    struct text text;
} result;

EXPORT(OPERATOR "init")
const void *init(char *config, size_t length) {
    (void)length;
    free(config);
    result.is_error = 0;
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

// False if there is no memory for the answer.
static int answer_for(struct arena_answer *answer, const uint8_t *batch, uint32_t record) {
    static const char reason[] = "the record asks for it";
    uint32_t length;
    const uint8_t *value = arena_value(batch, record, &length);
    if (!value) return 1;
    if (begins(value, length, "drop")) {
        arena_drop(answer, record);
        return 1;
    }
    if (begins(value, length, "dead")) {
        uint8_t *to = arena_dead_letter(answer, record, sizeof reason - 1);
        if (to) memcpy(to, reason, sizeof reason - 1);
        return to != NULL;
    }
#ifdef STDIO
    if (begins(value, length, "sleep")) return sleep_an_hour(answer, record);
    if (begins(value, length, "print")) fprintf(stderr, "a line of the operator\n");
#endif
    uint8_t *to = arena_replace_value(answer, record, length);
    if (!to) return 0;
    for (uint32_t n = 0; n < length; n++) to[n] = value[n] - (value[n] >= 'a' && value[n] <= 'z' ? 32 : 0);
    return 1;
}

EXPORT(OPERATOR "process")
const void *process(uint8_t *batch, size_t length) {
    (void)length;
    struct arena_answer answer;
    uint32_t records = arena_records(batch);
    int is_whole = arena_begin(&answer, records);
    for (uint32_t record = 0; is_whole && record < records; record++) is_whole = answer_for(&answer, batch, record);
    if (!is_whole) abort();
    arena_finish(&answer);
    free(batch);
    result.is_error = 0;
    result.text.at = answer.bytes;
    result.text.length = (uint32_t)answer.length;
    return &result;
}

EXPORT("cabi_post_" OPERATOR "process")
void process_post_return(void *returned) {
    (void)returned;
    free((void *)result.text.at);
}
