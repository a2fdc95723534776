// Operators for Tidegate in C: the whole interface. README.md of the SDK explains it function by function.
//
// An operator is a function that looks at one record and says what becomes of it. Everything it reads is a view of the
// batch where it lies; what it answers is written where the host takes it. Nothing is allocated for a record that
// passes.
//
// C17, and C++17. The same sources are compiled for WebAssembly and, with tg_harness.h, for tests on this machine.

#ifndef TIDEGATE_H
#define TIDEGATE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The version of this SDK.
#define TG_SDK_VERSION "0.1.0"

#if defined(__clang__) || defined(__GNUC__)
#define TG_PRINTF(place, first) __attribute__((format(printf, place, first)))
#define TG_NORETURN __attribute__((noreturn))
#else
#define TG_PRINTF(place, first)
#define TG_NORETURN
#endif

// ---------------------------------------------------------------------------------------------------------------------
// Bytes

/// Bytes that lie somewhere else. `at` is NULL for null, which is not the same as empty. They need not be text, and no
/// zero byte follows them.
typedef struct tg_bytes {
    const uint8_t *at;
    uint32_t length;
} tg_bytes;

static inline tg_bytes tg_bytes_of(const void *at, size_t length) {
    tg_bytes bytes;
    bytes.at = (const uint8_t *)at;
    bytes.length = (uint32_t)length;
    return bytes;
}

/// Null.
static inline tg_bytes tg_null(void) { return tg_bytes_of(NULL, 0); }

/// The bytes of a C string, without its zero.
static inline tg_bytes tg_str(const char *text) { return tg_bytes_of(text, strlen(text)); }

static inline bool tg_is_null(tg_bytes bytes) { return bytes.at == NULL; }

/// Whether these are the bytes of a C string. Null is none.
static inline bool tg_equals(tg_bytes bytes, const char *text) {
    return bytes.at != NULL && bytes.length == strlen(text) && memcmp(bytes.at, text, bytes.length) == 0;
}

/// Whether two are the same; null and empty are not.
static inline bool tg_same(tg_bytes one, tg_bytes other) {
    if (one.length != other.length || (one.at == NULL) != (other.at == NULL)) return false;
    return one.length == 0 || memcmp(one.at, other.at, one.length) == 0;
}

static inline bool tg_begins_with(tg_bytes bytes, const char *text) {
    size_t length = strlen(text);
    return bytes.at != NULL && bytes.length >= length && memcmp(bytes.at, text, length) == 0;
}

/// Whether they are UTF-8. Null is not.
bool tg_is_utf8(tg_bytes bytes);

/// For `%.*s` of a format: `tg_format("%.*s", TG_SHOW(value))`.
#define TG_SHOW(bytes) ((int)(bytes).length), ((const char *)(bytes).at)

// ---------------------------------------------------------------------------------------------------------------------
// A record. Only the fields that the operator's `reads` name are there; the others look like null or empty.

/// One record of a batch. It is valid while the function that was given it runs, and so is everything read from it.
typedef struct tg_record {
    const uint8_t *arena;
    const uint8_t *entry;
    uint32_t index;
} tg_record;

/// A header or a private attribute. Its value may be null, a name may repeat.
typedef struct tg_pair {
    tg_bytes name, value;
} tg_pair;

/// Pairs that have not been looked at yet.
typedef struct tg_pairs {
    const uint8_t *at;
    uint32_t left;
} tg_pairs;

enum { TG_ORIGIN_SOURCE = 0, TG_ORIGIN_TIMER = 1 };

/// Where a record comes from: unique in a pipeline, and the same after a restart.
typedef struct tg_id {
    uint8_t origin;
    uint16_t source;
    uint32_t partition;
    uint64_t offset;
    /// 0 for a record as it was read, another number for each piece of a split.
    uint64_t emit;
} tg_id;

/// No event time.
#define TG_NO_TIME INT64_MIN

// Numbers of an arena are little-endian, and at any address.
static inline uint16_t tg_read_16(const uint8_t *at) {
    uint16_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

static inline uint32_t tg_read_32(const uint8_t *at) {
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

static inline uint64_t tg_read_64(const uint8_t *at) {
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

// Ends the instance: a record names bytes that its batch does not have.
TG_NORETURN void tg_outside(void);

// The bytes whose offset and length stand at this place of the entry.
static inline const uint8_t *tg_within(const tg_record *record, size_t place) {
    uint32_t at = tg_read_32(record->entry + place);
    uint64_t end = (uint64_t)at + tg_read_32(record->entry + place + 4);
    if (end > tg_read_32(record->arena + 4)) tg_outside();
    return record->arena + at;
}

static inline tg_bytes tg_field_at(const tg_record *record, size_t place, uint8_t field) {
    uint32_t length = tg_read_32(record->entry + place + 4);
    if (!(record->entry[31] & field) || length == UINT32_MAX) return tg_null();
    return tg_bytes_of(tg_within(record, place), length);
}

static inline tg_bytes tg_key(const tg_record *record) { return tg_field_at(record, 40, 1); }

/// The value; null for a tombstone.
static inline tg_bytes tg_value(const tg_record *record) { return tg_field_at(record, 48, 2); }

static inline tg_pairs tg_pairs_at(const tg_record *record, size_t count, size_t block) {
    tg_pairs pairs;
    pairs.at = tg_within(record, block);
    pairs.left = tg_read_16(record->entry + count);
    return pairs;
}

/// All headers, in order, for tg_next.
static inline tg_pairs tg_headers(const tg_record *record) { return tg_pairs_at(record, 32, 56); }

/// All private attributes, in order: seen by later operators, never by a sink.
static inline tg_pairs tg_attributes(const tg_record *record) { return tg_pairs_at(record, 34, 64); }

static inline uint32_t tg_header_count(const tg_record *record) { return tg_read_16(record->entry + 32); }
static inline uint32_t tg_attribute_count(const tg_record *record) { return tg_read_16(record->entry + 34); }

/// Takes the next pair; false if there is none.
static inline bool tg_next(tg_pairs *pairs, tg_pair *pair) {
    if (pairs->left == 0) return false;
    uint32_t name = tg_read_16(pairs->at);
    uint32_t value = tg_read_32(pairs->at + 2);
    pair->name = tg_bytes_of(pairs->at + 6, name);
    pair->value = value == UINT32_MAX ? tg_null() : tg_bytes_of(pairs->at + 6 + name, value);
    pairs->at += 6 + name + pair->value.length;
    pairs->left--;
    return true;
}

static inline tg_bytes tg_last(tg_pairs pairs, const char *name) {
    tg_bytes found = tg_null();
    size_t length = strlen(name);
    for (tg_pair pair; tg_next(&pairs, &pair);) {
        if (pair.name.length == length && memcmp(pair.name.at, name, length) == 0) found = pair.value;
    }
    return found;
}

/// The value of the last header of this name; null if there is none, or if it is null.
static inline tg_bytes tg_header(const tg_record *record, const char *name) {
    return tg_last(tg_headers(record), name);
}

/// The value of the last private attribute of this name.
static inline tg_bytes tg_attribute(const tg_record *record, const char *name) {
    return tg_last(tg_attributes(record), name);
}

static inline tg_id tg_identity(const tg_record *record) {
    tg_id id;
    id.offset = tg_read_64(record->entry + 8);
    id.emit = tg_read_64(record->entry + 16);
    id.partition = tg_read_32(record->entry + 24);
    id.source = tg_read_16(record->entry + 28);
    id.origin = record->entry[30];
    return id;
}

/// When it happened, in microseconds since the Unix epoch; TG_NO_TIME if that is not known.
static inline int64_t tg_event_time(const tg_record *record) { return (int64_t)tg_read_64(record->entry); }

/// The batch's clock, in microseconds since the Unix epoch: the only time there is.
static inline int64_t tg_now(const tg_record *record) { return (int64_t)tg_read_64(record->arena + 40); }

/// The value as text. False if it is null or not UTF-8: the record is a dead letter that says so, and the operator
/// returns.
bool tg_text(tg_record *record, tg_bytes *text);

// ---------------------------------------------------------------------------------------------------------------------
// What becomes of a record. What is said last counts; if nothing is said, it passes. A value that is given is copied.

/// The number of an output: 0 is the main one, k the k-th of the operator's `outputs`.
typedef uint16_t tg_output;
#define TG_MAIN ((tg_output)0)
/// The number of an output that is not declared.
#define TG_NO_OUTPUT UINT16_MAX

/// It goes on as it is.
void tg_pass(tg_record *record);
/// It ends here.
void tg_drop(tg_record *record);
/// It goes on changed, by the changes that follow. The first change says this too.
void tg_replace(tg_record *record);
/// It becomes the pieces that follow; without one it ends. At most 4,095.
void tg_split(tg_record *record);
/// One more piece of a split: the record, changed by the changes that follow.
void tg_piece(tg_record *record, tg_output output);
/// It goes to an output, with the changes made before and after.
void tg_route(tg_record *record, tg_output output);
/// It goes to the output of this name. Is there none, the record is a dead letter that says so.
void tg_route_to(tg_record *record, tg_bytes name);
/// It comes again after a while, of which 10 minutes count.
void tg_retry(tg_record *record, uint32_t milliseconds, tg_bytes reason);
/// It goes to the dead letters.
void tg_dead_letter(tg_record *record, tg_bytes reason);
void tg_dead_letter_of(tg_record *record, const char *format, ...) TG_PRINTF(2, 3);

/// The number of the output of this name; TG_NO_OUTPUT if there is none.
tg_output tg_output_of(tg_bytes name);

/// What an exception is in other languages: the record is a dead letter that names the file and line, and what was
/// measured for it does not count. The operator returns.
#define tg_throw(record, ...) tg_throw_at((record), __FILE__, __LINE__, __VA_ARGS__)
void tg_throw_at(tg_record *record, const char *file, int line, const char *format, ...) TG_PRINTF(4, 5);

// Changes: to the record, or to the last piece of a split. A value may be null.

void tg_set_key(tg_record *record, tg_bytes key);
void tg_set_value(tg_record *record, tg_bytes value);
/// Room for a value of so many bytes, to be written at once: it is valid until the next change.
uint8_t *tg_set_value_in_place(tg_record *record, uint32_t length);
/// Removes all headers of the name and appends one.
void tg_set_header(tg_record *record, tg_bytes name, tg_bytes value);
/// Appends a header; others of the name stay.
void tg_add_header(tg_record *record, tg_bytes name, tg_bytes value);
void tg_remove_header(tg_record *record, tg_bytes name);
void tg_set_attribute(tg_record *record, tg_bytes name, tg_bytes value);
void tg_add_attribute(tg_record *record, tg_bytes name, tg_bytes value);
void tg_remove_attribute(tg_record *record, tg_bytes name);
/// Microseconds since the Unix epoch, or TG_NO_TIME.
void tg_set_event_time(tg_record *record, int64_t micros);

// ---------------------------------------------------------------------------------------------------------------------
// Failures

typedef enum tg_class {
    /// The same call may succeed later: what the operator needs is not there now.
    TG_TRANSIENT,
    /// The same call fails again.
    TG_PERMANENT,
    /// Only another configuration helps.
    TG_BAD_CONFIGURATION
} tg_class;

/// Fails the whole batch; the operator returns, and is not called for the rest of it. The code is `[a-z][a-z0-9-]*`.
void tg_fail(tg_record *record, tg_class failure, const char *code, const char *format, ...) TG_PRINTF(4, 5);

/// Refuses the start: `return tg_refuse(...)` in the operator's `start`. It is always false.
bool tg_refuse(tg_class failure, const char *code, const char *format, ...) TG_PRINTF(3, 4);

/// Ends the instance, for what must never be. The record that did it is a dead letter with the message, the file and
/// the line, which go to WASI's standard error: an operator that calls it imports that, and needs no grant for it.
#define tg_panic(...) tg_panic_at(__FILE__, __LINE__, __VA_ARGS__)
TG_NORETURN void tg_panic_at(const char *file, int line, const char *format, ...) TG_PRINTF(3, 4);

// ---------------------------------------------------------------------------------------------------------------------
// Log and metrics

typedef enum tg_level { TG_TRACE, TG_DEBUG, TG_INFO, TG_WARN, TG_ERROR } tg_level;

/// A line for the host's log, at most 4 KiB. An operator that calls it imports `log`, which must be granted.
void tg_log(tg_level level, const char *format, ...) TG_PRINTF(2, 3);

typedef enum tg_metric_kind { TG_COUNTER, TG_GAUGE, TG_HISTOGRAM } tg_metric_kind;

typedef struct tg_metric {
    /// `[a-z][a-z0-9_]*`, at most 64 bytes; a counter's ends with `_total`. NULL ends the list.
    const char *name;
    tg_metric_kind kind;
    /// One line for people.
    const char *help;
    /// Names of its labels, at most 8, ended by NULL; NULL for none.
    const char *const *labels;
    /// Upper bounds of a histogram, ascending, at most 32; none for the usual ones.
    const double *bounds;
    uint32_t bound_count;
} tg_metric;

// Measured while a record is processed: it counts if the record's outcome does. `metric` counts from 0. Values of
// labels stand in the order of the declaration. A record has at most 256 measurements.
void tg_count(tg_record *record, uint32_t metric, uint64_t amount);
void tg_count_for(tg_record *record, uint32_t metric, uint64_t amount, const tg_bytes *labels, uint32_t label_count);
/// Of a gauge the last value, of a histogram every value counts; one that is not finite does not.
void tg_measure(tg_record *record, uint32_t metric, double value);
void tg_measure_for(tg_record *record, uint32_t metric, double value, const tg_bytes *labels, uint32_t label_count);

// ---------------------------------------------------------------------------------------------------------------------
// Random numbers: the same whenever this record comes to this stage. Not for secrets.

typedef struct tg_random {
    uint64_t state[4];
} tg_random;

tg_random tg_random_of(const tg_record *record);
/// 64 random bits.
uint64_t tg_random_bits(tg_random *random);
/// From 0 to 1, without 1.
double tg_random_unit(tg_random *random);
/// A whole number below `end`; 0 below 0.
uint64_t tg_random_below(tg_random *random, uint64_t end);
/// Whether something happens that has this probability.
bool tg_random_chance(tg_random *random, double probability);

// ---------------------------------------------------------------------------------------------------------------------
// Memory and text

/// Memory that is there until the record's outcome is said, and is given back by itself. Never NULL: an instance
/// without memory ends.
void *tg_memory(size_t size);
/// Memory that stays until the instance ends; for `start`.
void *tg_keep(size_t size);

/// Text as printf makes it, in the record's memory: all of it but %a, %n, %Lf, %ls and %lc, which make the record a
/// dead letter that says so. tg_write_number writes a number in the fewest digits.
tg_bytes tg_format(const char *format, ...) TG_PRINTF(1, 2);

/// Bytes that grow, in the record's memory: `tg_writer json = {0}`, tg_write..., then `tg_written(&json)`.
typedef struct tg_writer {
    uint8_t *at;
    size_t length, room;
} tg_writer;

void tg_write(tg_writer *writer, tg_bytes bytes);
static inline void tg_write_text(tg_writer *writer, const char *text) { tg_write(writer, tg_str(text)); }
void tg_write_format(tg_writer *writer, const char *format, ...) TG_PRINTF(2, 3);
/// A number in the fewest digits that are read as the same.
void tg_write_number(tg_writer *writer, double number);
/// A JSON string in its quotes. What is not UTF-8 becomes U+FFFD.
void tg_write_json(tg_writer *writer, tg_bytes text);
/// Lower-case hexadecimal digits.
void tg_write_hex(tg_writer *writer, tg_bytes bytes);

/// What was written; empty, not null, if nothing was.
static inline tg_bytes tg_written(const tg_writer *writer) {
    return tg_bytes_of(writer->at ? (const void *)writer->at : (const void *)"", writer->length);
}

// ---------------------------------------------------------------------------------------------------------------------
// JSON

/// A value in a JSON text that has been checked. `at` is NULL for none.
typedef struct tg_json {
    const uint8_t *at, *end;
} tg_json;

typedef enum tg_json_kind {
    TG_JSON_NONE,
    TG_JSON_NULL,
    TG_JSON_BOOLEAN,
    TG_JSON_NUMBER,
    TG_JSON_STRING,
    TG_JSON_ARRAY,
    TG_JSON_OBJECT
} tg_json_kind;

/// Members or entries that have not been looked at yet.
typedef struct tg_json_items {
    const uint8_t *at, *end;
    bool is_object;
} tg_json_items;

/// Checks a text: strictly RFC 8259, at most 128 deep. Returns NULL, or what is wrong at `*wrong_at`.
const char *tg_json_read(tg_bytes text, tg_json *json, uint32_t *wrong_at);

/// The value of a record as JSON. False if it is none: the record is a dead letter that says why, and the operator
/// returns.
bool tg_json_value(tg_record *record, tg_json *json);

tg_json_kind tg_json_kind_of(tg_json json);
/// The last member of this name; none if there is none, or if it is no object.
tg_json tg_json_member(tg_json json, const char *name);
/// Members of an object or entries of an array; none of another.
tg_json_items tg_json_items_of(tg_json json);
/// Takes the next one. `name` is that of a member, to be read by tg_json_string, and may be NULL.
bool tg_json_next(tg_json_items *items, tg_json *name, tg_json *value);
// Each is false, and changes nothing, if it is another kind of value.
/// A view of the JSON text if there is no escape in it, else in the record's memory.
bool tg_json_string(tg_json json, tg_bytes *text);
bool tg_json_number(tg_json json, double *number);
/// False for what is no whole number, or too large. 1.0 and 1e3 are whole numbers too, and all are exact.
bool tg_json_integer(tg_json json, int64_t *number);
bool tg_json_boolean(tg_json json, bool *boolean);
/// The text of a value as it stands there.
static inline tg_bytes tg_json_source(tg_json json) { return tg_bytes_of(json.at, (size_t)(json.end - json.at)); }

// ---------------------------------------------------------------------------------------------------------------------
// Configuration: a struct, and a table that says what its members are. The schema is made from the table, and the
// members are filled from the stage's configuration and the defaults before `start` is called.

typedef enum tg_kind {
    TG_KIND_END,
    TG_KIND_BOOLEAN,
    TG_KIND_INTEGER,
    TG_KIND_NUMBER,
    TG_KIND_TEXT,
    TG_KIND_CHOICE,
    TG_KIND_LIST,
    TG_KIND_TABLE,
    TG_KIND_ANY
} tg_kind;

/// A list of a configuration: `count` items of the type that the item's kind has.
typedef struct tg_list {
    const void *items;
    size_t count;
} tg_list;

/// Texts of a list of texts.
static inline const tg_bytes *tg_texts(tg_list list) { return (const tg_bytes *)list.items; }

typedef struct tg_table tg_table;

/// A key of a configuration. Made by TG_BOOLEAN and the like, with the rest as designated initialisers in this order.
typedef struct tg_field {
    /// The key.
    const char *name;
    tg_kind kind;
    /// Of the member in its struct.
    size_t offset;
    /// One line or more for people.
    const char *help;
    /// The value where the key is not there, JSON. Without one the key must be there, if it is not optional.
    const char *fallback;
    /// May be left out: the member is then 0 or null. `present` tells a 0 apart, if it is needed.
    bool optional;
    /// Bounds of an integer, of the characters of a text, of the entries of a list. `maximum` below `minimum` is none,
    /// and both 0 is no bound at all.
    int64_t minimum, maximum;
    /// Bounds of a number; both 0 is none.
    double least, most;
    /// Names of a choice, ended by NULL. The member is the index.
    const char *const *choices;
    /// Of each entry of a list; its own name and offset say nothing.
    const struct tg_field *item;
    /// Keys of a table.
    const tg_table *table;
} tg_field;

/// A struct and its keys.
struct tg_table {
    /// One line or more for people.
    const char *help;
    /// Bytes of the struct.
    size_t size;
    /// Ended by TG_END.
    const tg_field *fields;
};

// The member's type is held against the kind when it is compiled.
#ifdef __cplusplus
#define TG_MEMBER(type, member, wanted) (offsetof(type, member) + 0 * sizeof(&((type *)0)->member == (wanted *)0))
#else
#define TG_MEMBER(type, member, wanted)                                                                                \
    (offsetof(type, member) + 0 * sizeof(struct {                                                                      \
                                  int none;                                                                            \
                                  _Static_assert(_Generic(((type *)0)->member, wanted: 1, default: 0),                 \
                                                 #member " is no " #wanted);                                           \
                              }))
#endif

#define TG_BOOLEAN(type, member, key) key, TG_KIND_BOOLEAN, TG_MEMBER(type, member, bool)
#define TG_INTEGER(type, member, key) key, TG_KIND_INTEGER, TG_MEMBER(type, member, int64_t)
#define TG_NUMBER(type, member, key) key, TG_KIND_NUMBER, TG_MEMBER(type, member, double)
#define TG_TEXT(type, member, key) key, TG_KIND_TEXT, TG_MEMBER(type, member, tg_bytes)
#define TG_CHOICE(type, member, key) key, TG_KIND_CHOICE, TG_MEMBER(type, member, int)
#define TG_LIST(type, member, key) key, TG_KIND_LIST, TG_MEMBER(type, member, tg_list)
/// The member is `const struct NAME *`, NULL where the key is optional and not there.
#define TG_TABLE(type, member, key) key, TG_KIND_TABLE, offsetof(type, member)
/// Any JSON, as its text.
#define TG_ANY(type, member, key) key, TG_KIND_ANY, TG_MEMBER(type, member, tg_bytes)
#define TG_ITEM(kind) NULL, kind, 0
#define TG_END {NULL, TG_KIND_END, 0, NULL, NULL, false, 0, 0, 0, 0, NULL, NULL, NULL}

// ---------------------------------------------------------------------------------------------------------------------
// The operator

enum { TG_READS_KEY = 1, TG_READS_VALUE = 2, TG_READS_HEADERS = 4, TG_READS_ATTRIBUTES = 8 };

/// What an operator is.
typedef struct tg_operator {
    /// A verb: `redact-pii`.
    const char *name;
    /// Semver: `1.2.3`.
    const char *version;
    /// TG_READS_KEY and the like; what is not named is not there.
    uint32_t reads;
    /// What it is configured with, and where that is written; both NULL for nothing.
    const tg_table *config;
    void *settings;
    /// Names of its outputs beside the main one, ended by NULL; NULL for none.
    const char *const *outputs;
    /// Instead, or as well: names them with tg_name_output, from the settings.
    void (*name_outputs)(void);
    /// Ended by one without a name; NULL for none.
    const tg_metric *metrics;
    /// Called once, when the settings have been filled in: makes what the operator needs. False after tg_refuse.
    bool (*start)(void);
    /// Says what becomes of a record.
    void (*process)(tg_record *record);
} tg_operator;

/// Declares an output, in `name_outputs`. One that is named already keeps its number.
void tg_name_output(tg_bytes name);

extern const tg_operator tg_the_operator;

/// Makes the operator of this program: TG_OPERATOR(.name = "redact", .version = "1.0.0", .process = redact).
#define TG_OPERATOR(...) const tg_operator tg_the_operator = {__VA_ARGS__}

// ---------------------------------------------------------------------------------------------------------------------
// Tokens: the text of answers as a model makes them, before anyone has read it. operator.toml has
// `handlers = ["tokens"]`, and the program TG_TOKENS beside TG_OPERATOR.

typedef enum tg_lane_kind {
    /// What is said.
    TG_CONTENT,
    /// What is thought before.
    TG_REASONING,
    /// The arguments of a call: JSON text, which may be cut anywhere. What is put into a string there has to be escaped
    /// as JSON is: tg_write_json.
    TG_ARGUMENTS
} tg_lane_kind;

/// One text of an answer. It is valid while `open` runs, and so is everything it points to.
typedef struct tg_lane {
    /// The record that the answer is for, as it stands in logs.
    tg_bytes identity;
    /// The model's name in the pipeline.
    tg_bytes model;
    /// Which of the answers that were asked for, counted from 0.
    uint32_t choice;
    tg_lane_kind kind;
    /// Of arguments the index of their call, counted from 0.
    uint32_t call;
    /// The record's private attributes, in order; none if the operator does not read them.
    const tg_pair *attributes;
    uint32_t attribute_count;
} tg_lane;

/// The value of the last private attribute of this name; null if there is none.
tg_bytes tg_lane_attribute(const tg_lane *lane, const char *name);

typedef enum tg_ending {
    TG_NO_END,
    /// At a word, as by a stop string.
    TG_STOP,
    /// Because it may not be said.
    TG_FILTERED
} tg_ending;

/// The next text of a lane.
typedef struct tg_step {
    /// What was held back, and behind it the new text. It may be empty.
    tg_bytes text;
    /// Nothing comes after it: what is held back is gone.
    bool is_last;
    /// What is kept for the lane.
    void *state;
} tg_step;

// What goes on depends on the text and on the lane alone, however the text is cut into pieces: there is no clock and no
// chance. Text of which nothing is said ends here.

/// This text goes on, behind what was let through before. It is copied.
void tg_let_through(tg_step *step, tg_bytes text);
/// The last so many bytes of the text come again, before the next.
void tg_hold_back(tg_step *step, uint32_t bytes);
/// The answer ends behind what is let through.
void tg_end_answer(tg_step *step, tg_ending how);
/// Fails, and with it the lane and its answer.
void tg_fail_lanes(tg_step *step, tg_class failure, const char *code, const char *format, ...) TG_PRINTF(4, 5);

/// What handles tokens.
typedef struct tg_tokens {
    /// Bytes that are kept for each lane, zero at first; 0 for none. Many are open at the same time.
    size_t state;
    /// Begins a lane. False after tg_refuse, which refuses it, and with it the answer. NULL if there is nothing to do.
    bool (*open)(const tg_lane *lane, void *state);
    /// Says what goes on of the next text of a lane.
    void (*step)(tg_step *step);
    /// Frees what the state points to. NULL if there is nothing to do.
    void (*close)(void *state);
} tg_tokens;

extern const tg_tokens tg_the_tokens;

/// Makes the handler of tokens of this program: TG_TOKENS(.step = step).
#ifdef TIDEGATE_TOKENS
#define TG_TOKENS(...) const tg_tokens tg_the_tokens = {__VA_ARGS__}
#elif defined(__cplusplus)
#define TG_TOKENS(...) static_assert(false, "write handlers = [\"tokens\"] in operator.toml")
#else
#define TG_TOKENS(...) _Static_assert(0, "write handlers = [\"tokens\"] in operator.toml")
#endif

#ifdef __cplusplus
}
#endif

#endif
