// What the files of this SDK share. Operators include tidegate.h alone.

#ifndef TG_INSIDE_H
#define TG_INSIDE_H

#include "../tidegate.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "batches are little-endian, and so must this machine be"
#endif

enum {
    TG_ACTION_PASS,
    TG_ACTION_DROP,
    TG_ACTION_REPLACE,
    TG_ACTION_SPLIT,
    TG_ACTION_ROUTE,
    TG_ACTION_RETRY,
    TG_ACTION_DEAD_LETTER
};
enum { TG_MASK_KEY = 1, TG_MASK_VALUE = 2, TG_MASK_HEADERS = 4, TG_MASK_ATTRIBUTES = 8, TG_MASK_TIME = 16 };
enum { TG_CHANGE_SET, TG_CHANGE_ADD, TG_CHANGE_REMOVE };
enum { TG_ANSWER_HEADER = 40, TG_SECTION_SAMPLES = 1, TG_SECTION_ENTRY = 16 };

// Limits of the contract.
enum { TG_MAX_PIECES = 4095, TG_MAX_PAIRS = 65535, TG_MAX_NAME = 65535, TG_MAX_SAMPLES = 256, TG_MAX_LABEL = 256 };
enum { TG_MAX_OUTPUTS = 256, TG_MAX_METRICS = 64, TG_MAX_LABELS = 8 };

// Why a call failed. `code` is NULL if it did not.
typedef struct tg_failure {
    tg_class failure;
    const char *code;
    tg_bytes message;
} tg_failure;

// Ends this instance, or the tests; a panic says why on standard error.
TG_NORETURN void tg_end(const char *why);
TG_NORETURN void tg_panicked(tg_bytes why);

// Bytes that grow, and stay for the next batch.
typedef struct tg_buffer {
    uint8_t *at;
    size_t length, room;
} tg_buffer;

// The sum of sizes. In WebAssembly a size has 32 bits: what is more than there can be ends the instance.
static inline size_t tg_sum(size_t one, size_t other) {
    if (one > SIZE_MAX - other) tg_end("more memory is asked for than there can be");
    return one + other;
}

// Makes room for so many more bytes; their place is the end of the buffer, whose length does not change.
void tg_buffer_grow(tg_buffer *buffer, size_t more);

static inline uint8_t *tg_buffer_more(tg_buffer *buffer, size_t more) {
    if (buffer->room - buffer->length < more) tg_buffer_grow(buffer, more);
    uint8_t *at = buffer->at + buffer->length;
    buffer->length += more;
    return at;
}

static inline void tg_put_16(uint8_t *at, uint32_t number) {
    uint16_t narrow = (uint16_t)number;
    memcpy(at, &narrow, sizeof narrow);
}
static inline void tg_put_32(uint8_t *at, size_t number) {
    uint32_t narrow = (uint32_t)number;
    memcpy(at, &narrow, sizeof narrow);
}
static inline void tg_put_64(uint8_t *at, uint64_t number) { memcpy(at, &number, sizeof number); }

// Copies bytes. Few of them are copied by words, which overlap: in WebAssembly a copy of any length is a call of the
// host.
static inline void tg_copy(uint8_t *to, tg_bytes from) {
    const uint8_t *at = from.at;
    size_t left = from.length;
    if (left > 64) {
        memcpy(to, at, left);
    } else if (left >= 16) {
        for (; left > 16; left -= 16, to += 16, at += 16) memcpy(to, at, 16);
        memcpy(to + left - 16, at + left - 16, 16);
    } else if (left >= 8) {
        memcpy(to, at, 8);
        memcpy(to + left - 8, at + left - 8, 8);
    } else if (left >= 4) {
        memcpy(to, at, 4);
        memcpy(to + left - 4, at + left - 4, 4);
    } else {
        for (; left != 0; left--) *to++ = *at++;
    }
}

// Memory of one record, given back as a whole, or of the configuration.
typedef struct tg_arena {
    struct tg_block *blocks;
    size_t used;
} tg_arena;

void *tg_arena_take(tg_arena *arena, size_t size);
// Gives back all but the first block, which is used again.
void tg_arena_clear(tg_arena *arena);
extern tg_arena tg_scratch, tg_kept;

// Text as it is written, into a writer.
void tg_write_formatted(tg_writer *writer, const char *format, va_list arguments);
tg_bytes tg_formatted(const char *format, va_list arguments);
// A number that is not negative as printf writes it: `letter` is one of fFeEgG, a precision below 0 is the usual one.
void tg_write_real(tg_writer *writer, double number, char letter, int64_t precision, bool is_alternative);
// How much of it is UTF-8.
uint32_t tg_utf8_until(tg_bytes bytes);
// UTF-8 for the host: what is not becomes U+FFFD.
tg_bytes tg_as_text(tg_bytes bytes);
// The same in memory that stays.
tg_bytes tg_kept_copy(tg_bytes bytes);
const char *tg_file_name(const char *path);

// Configuration.
tg_bytes tg_schema(const tg_table *table);
// Fills the settings. False: the failure is set.
bool tg_configure(const tg_operator *with, tg_bytes json);

// The one operator that runs here, and its answer to a batch.
typedef struct tg_runner {
    bool is_started;
    tg_failure failure;
    // Names of the outputs beside the main one.
    tg_bytes outputs[TG_MAX_OUTPUTS];
    uint32_t output_count;
    bool has_too_many_outputs;
    const tg_metric *metrics;
    uint32_t metric_count;
    // The answer: header, actions, payloads, then samples and their section.
    tg_buffer answer;
    // Of the current record: what was said, where its payload begins, and in a patch the parts: key, value, headers,
    // attributes, event time and the end.
    int action;
    size_t payload, parts[6];
    // Why it is a dead letter whatever changes follow; null if it is not.
    tg_bytes refused;
    uint32_t pieces;
    // Samples of the batch; of the current record the first and their number.
    tg_buffer samples;
    uint32_t sample_count, record_samples;
    size_t record_samples_at;
} tg_runner;

extern tg_runner tg_running;
static tg_runner *const run = &tg_running;

// Names, outputs and metrics of an operator under a configuration; with `is_start` its `start` is called too.
bool tg_begin(const tg_operator *with, tg_bytes config, bool is_start);
// Answers a batch. Null: the failure is set. The answer is there until the next batch.
tg_bytes tg_process(const tg_operator *with, tg_bytes batch);
// Begins and ends the outcome of a record.
void tg_outcome_begin(void);
int tg_outcome_end(tg_record *record);
// What cannot be done: the record is a dead letter, whatever changes follow.
void tg_refuse_record(tg_bytes reason);
// What was measured for the current record does not count.
void tg_forget_samples(void);

// Lanes of what handles tokens. False: the failure is set. What a step lets through is put behind what `out` has.
bool tg_lane_open(const tg_tokens *with, uint64_t number, const tg_lane *opened);
bool tg_lane_step(const tg_tokens *with, uint64_t number, tg_bytes text, bool is_last, tg_buffer *out,
                  tg_ending *ending);
void tg_lane_close(const tg_tokens *with, uint64_t number);
// Closes every lane, for a fresh start.
void tg_lanes_forget(const tg_tokens *with);

// Where lines for the log go: the host, or the harness.
void tg_host_log(tg_level level, tg_bytes line);

#endif
