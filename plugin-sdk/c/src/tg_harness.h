// Runs an operator on this machine, in tests, through the same encoding as in WebAssembly: records are copied into a
// batch with the fields that the operator reads and no others, and its answer is decoded and checked as the host does.
//
// A test is a program: `main` runs it, and ends with `return tg_test_end();`.

#ifndef TG_HARNESS_H
#define TG_HARNESS_H

#include "tidegate.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A record that goes in. What is left out is null or empty; its place in the batch is its offset.
typedef struct tg_test_record {
    tg_bytes key, value;
    const tg_pair *headers;
    uint32_t header_count;
    const tg_pair *attributes;
    uint32_t attribute_count;
    /// NULL for none.
    const int64_t *event_time;
    /// NULL for source 0, partition 0.
    const tg_id *id;
} tg_test_record;

typedef enum tg_test_action {
    TG_PASSED,
    TG_DROPPED,
    TG_REPLACED,
    TG_SPLIT_UP,
    TG_ROUTED,
    TG_RETRIED,
    TG_DEAD_LETTERED
} tg_test_action;

/// A change of headers or attributes.
typedef struct tg_test_change {
    /// 0 set, 1 add, 2 remove.
    uint8_t operation;
    tg_bytes name, value;
} tg_test_change;

/// What changes in a record. Key, value and event time count where their flag is set.
typedef struct tg_test_patch {
    /// The output it goes to, beginning with 1; 0 is the main one.
    tg_output output;
    bool has_key, has_value, has_event_time;
    tg_bytes key, value;
    int64_t event_time;
    const tg_test_change *headers;
    uint32_t header_count;
    const tg_test_change *attributes;
    uint32_t attribute_count;
} tg_test_patch;

/// What became of a record. It is there until the next batch.
typedef struct tg_test_outcome {
    tg_test_action action;
    /// One of a replaced or routed record, one for each piece of a split, else none.
    const tg_test_patch *patches;
    uint32_t patch_count;
    uint32_t retry_milliseconds;
    /// Of a retry or a dead letter.
    tg_bytes reason;
} tg_test_outcome;

/// Starts the operator with a configuration, JSON. False if it fails: tg_test_failure says how.
bool tg_test_start(const char *config);
/// The clock of the next batches, microseconds; 1,700,000,000 s if it is not set.
void tg_test_set_clock(int64_t clock);
/// What the records of the next batches draw random numbers from.
void tg_test_set_seed(const uint8_t seed[16]);
/// Runs a batch. False if the operator fails it, or answers what the host would refuse.
bool tg_test_run(const tg_test_record *records, uint32_t count, tg_test_outcome *outcomes);
/// Runs a batch of one record; a failed one ends the tests.
tg_test_outcome tg_test_run_one(tg_test_record record);
/// The last failure: its class, code and message.
tg_class tg_test_failure_class(void);
const char *tg_test_failure_code(void);
tg_bytes tg_test_failure(void);
/// The operator's configuration schema, JSON.
tg_bytes tg_test_schema(void);

/// The value that an outcome sets in its record or first piece; null if it sets none.
tg_bytes tg_test_value(const tg_test_outcome *outcome);
/// The value that it sets or adds last for a header.
tg_bytes tg_test_header(const tg_test_outcome *outcome, const char *name);
/// The name of the output that it goes to; "" for the main one.
tg_bytes tg_test_output(const tg_test_outcome *outcome);

/// A line of the log.
typedef struct tg_test_line {
    tg_level level;
    tg_bytes text;
} tg_test_line;

/// Lines since the start, and how many.
const tg_test_line *tg_test_log(uint32_t *count);

/// What was measured under one combination of labels since the start.
typedef struct tg_test_series {
    uint32_t metric;
    const tg_bytes *labels;
    uint32_t label_count;
    /// How many measurements, their sum (of a counter the amounts), and the last.
    uint64_t count;
    double sum, last;
} tg_test_series;

const tg_test_series *tg_test_measured(uint32_t *count);
/// The sum of a counter over all its labels.
double tg_test_counter(const char *name);

/// What went on of a piece, or of a text in sum, and how the answer ended. It is there until the next batch.
typedef struct tg_test_through {
    tg_bytes text;
    tg_ending end;
} tg_test_through;

// Of an operator that handles tokens, compiled with -DTIDEGATE_TOKENS.
/// Opens a lane; what is null or 0 in it is that of the content of the first choice. 0 if it is refused: tg_test_failure
/// says how.
uint64_t tg_test_open(const tg_lane *lane);
/// Gives the next text of a lane. False if it fails.
bool tg_test_step(uint64_t lane, tg_bytes text, bool is_last, tg_test_through *through);
/// Gives all of the text in these pieces, as far as the answer goes, and closes the lane.
bool tg_test_run_lane(uint64_t lane, const tg_bytes *pieces, uint32_t count, tg_test_through *sum);

/// Runs the cases of files, `cases/*.json`, that need no sandbox: each one counts as a test.
void tg_test_cases(const char *pattern);

/// Says that something is as it should be; if not, the file, the line and the condition are printed.
#define TG_EXPECT(condition) tg_test_expect((condition), #condition, __FILE__, __LINE__)
/// The same of bytes and a C string; both are printed.
#define TG_EXPECT_TEXT(bytes, text) tg_test_expect_text((bytes), (text), __FILE__, __LINE__)
bool tg_test_expect(bool is_right, const char *condition, const char *file, int line);
bool tg_test_expect_text(tg_bytes found, const char *expected, const char *file, int line);

/// Prints how many tests there were and how many failed, and gives what `main` returns.
int tg_test_end(void);

#ifdef __cplusplus
}
#endif

#endif
