// Batches and answers of wit/golden, byte for byte.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sdk_tests.h"

static const char *golden;
// Files stay until the tests end.
enum { MOST = 8192 };
static tg_arena files;

// The bytes of a file of hexadecimal digits.
static tg_bytes bytes_of(const char *name) {
    char path[4096], line[4096];
    snprintf(path, sizeof path, "%s/%s.hex", golden, name);
    FILE *from = fopen(path, "r");
    size_t length = 0;
    uint8_t *bytes = tg_arena_take(&files, MOST);
    while (from && length < MOST && fgets(line, sizeof line, from)) {
        if (line[0] == '#') continue;
        char *at = line + 4, *end = strchr(line, '#');
        if (end) *end = '\0';
        for (char *next;; at = next) {
            unsigned long byte = strtoul(at, &next, 16);
            if (next == at) break;
            bytes[length++] = (uint8_t)byte;
        }
    }
    if (!from || !length) tg_test_failed("%s cannot be read", path);
    if (from) fclose(from);
    return tg_bytes_of(bytes, length);
}

static unsigned seen;

static void look_at_all(tg_record *record) {
    tg_id id = tg_identity(record);
    tg_pairs pairs = tg_headers(record);
    tg_pair pair;
    TG_EXPECT(tg_now(record) == INT64_C(1700000000123456));
    switch (seen++) {
    case 0:
        TG_EXPECT_TEXT(tg_key(record), "k");
        TG_EXPECT_TEXT(tg_value(record), "v\xc3\xa4rde");
        TG_EXPECT(tg_header_count(record) == 3 && tg_attribute_count(record) == 1);
        TG_EXPECT(tg_next(&pairs, &pair) && tg_equals(pair.name, "h") && tg_equals(pair.value, "1"));
        TG_EXPECT(tg_next(&pairs, &pair) && tg_equals(pair.name, "h") && tg_is_null(pair.value));
        TG_EXPECT(tg_next(&pairs, &pair) && tg_equals(pair.name, "") && tg_equals(pair.value, ""));
        TG_EXPECT(!tg_next(&pairs, &pair));
        TG_EXPECT(tg_same(tg_attribute(record, "pii"), tg_bytes_of("\0\xff", 2)));
        TG_EXPECT(id.origin == TG_ORIGIN_SOURCE && id.source == 1 && id.partition == 2 && id.offset == 42 &&
                  id.emit == 0);
        TG_EXPECT(tg_event_time(record) == INT64_C(1700000000000000));
        break;
    case 1:
        TG_EXPECT_TEXT(tg_key(record), "");
        TG_EXPECT(tg_is_null(tg_value(record)));
        TG_EXPECT(tg_event_time(record) == TG_NO_TIME && !tg_next(&pairs, &pair));
        TG_EXPECT(tg_is_null(tg_header(record, "h")));
        break;
    default:
        TG_EXPECT(tg_is_null(tg_key(record)));
        TG_EXPECT_TEXT(tg_value(record), "");
        TG_EXPECT(id.origin == TG_ORIGIN_TIMER && id.source == 0 && id.partition == 7 && id.offset == 44);
        TG_EXPECT(id.emit == 0x1001 && tg_event_time(record) == -1);
    }
}

static void look_at_key(tg_record *record) {
    TG_EXPECT(tg_is_null(tg_value(record)) && tg_header_count(record) == 0 && tg_attribute_count(record) == 0);
    if (seen++ == 0) TG_EXPECT_TEXT(tg_key(record), "k");
}

static void batches_are_read_as_they_stand(void) {
    static const struct {
        const char *name;
        void (*look)(tg_record *record);
        unsigned records;
    } batches[] = {{"batch-all", look_at_all, 3},
                   {"batch-grown", look_at_all, 3},
                   {"batch-key", look_at_key, 3},
                   {"batch-none", look_at_all, 0}};
    for (size_t at = 0; at < sizeof batches / sizeof *batches; at++) {
        seen = 0;
        operate(batches[at].look);
        TG_EXPECT(tg_process(&tg_the_operator, bytes_of(batches[at].name)).at);
        TG_EXPECT(seen == batches[at].records);
    }
}

static void is_refused(tg_bytes batch, const char *code) {
    TG_EXPECT(!tg_process(&tg_the_operator, batch).at);
    TG_EXPECT(strcmp(tg_test_failure_code(), code) == 0 && tg_test_failure_class() == TG_PERMANENT);
}

// A golden batch in which a number is another.
static tg_bytes changed(const char *name, size_t at, uint32_t number) {
    tg_bytes batch = bytes_of(name);
    tg_put_32((uint8_t *)(uintptr_t)batch.at + at, number);
    return batch;
}

static void what_has_to_be_known_and_is_not_is_refused(void) {
    operate(tg_pass);
    for (unsigned bit = 16; bit < 32; bit++) {
        is_refused(changed("batch-all", 12, UINT32_C(1) << bit), "unknown-arena");
    }
    uint32_t sections = tg_read_32(bytes_of("batch-grown").at + 32);
    is_refused(changed("batch-grown", sections, UINT32_C(0x80000000)), "unknown-arena");
}

static void what_is_no_whole_batch_is_refused(void) {
    operate(tg_pass);
    is_refused(bytes_of("batch-layout-1"), "bad-batch");
    tg_bytes whole = bytes_of("batch-all");
    for (uint32_t length = 0; length < whole.length; length++) is_refused(tg_bytes_of(whole.at, length), "bad-batch");
    static const struct {
        size_t at;
        uint32_t number;
    } wrong[] = {{4, 0},  {4, UINT32_MAX},  {8, 0},           {8, 68},           {16, 1000},        {16, UINT32_MAX}, {20, 0},
                 {20, 64}, {20, 73}, {20, UINT32_MAX}, {20, 0xfffffff8}, {24, 0},           {24, 8},           {24, 0xfffffff8},  {28, 1000},
                 {28, UINT32_MAX}, {32, UINT32_MAX}};
    for (size_t one = 0; one < sizeof wrong / sizeof *wrong; one++) {
        is_refused(changed("batch-grown", wrong[one].at, wrong[one].number), "bad-batch");
    }
}

// All changes of the golden answer, in another order than it has them.
static void change_everything(tg_record *record, const char *value) {
    tg_set_event_time(record, -7);
    tg_set_header(record, tg_str("h"), tg_str("new"));
    tg_set_attribute(record, tg_str("\xc3\xa4"), tg_str(""));
    tg_add_header(record, tg_str("h"), tg_null());
    tg_set_key(record, tg_bytes_of("\0\xff", 2));
    tg_set_value(record, tg_str("this goes again"));
    tg_remove_header(record, tg_str("gone"));
    tg_set_value(record, value ? tg_str(value) : tg_null());
}

static void answer_every(tg_record *record) {
    switch (seen++) {
    case 0: tg_pass(record); break;
    case 1: tg_drop(record); break;
    case 2: tg_replace(record); break;
    case 3:
        tg_set_event_time(record, TG_NO_TIME);
        tg_set_value(record, tg_str(""));
        tg_set_key(record, tg_null());
        break;
    case 4: change_everything(record, NULL); break;
    case 5: tg_split(record); break;
    case 6:
        tg_piece(record, TG_MAIN);
        tg_piece(record, 2);
        tg_set_value(record, tg_str("two"));
        tg_piece(record, 1);
        change_everything(record, NULL);
        break;
    case 7:
        tg_set_value(record, tg_str("routed"));
        tg_route_to(record, tg_str("left"));
        break;
    case 8: tg_route(record, TG_MAIN); break;
    case 9: tg_retry(record, 250, tg_str("later")); break;
    case 10: tg_retry(record, UINT32_MAX, tg_str("")); break;
    default: tg_dead_letter(record, tg_str("nicht f\xc3\xbcr mich"));
    }
}

static void measure_all(tg_record *record) {
    tg_bytes labels[] = {tg_str("a"), tg_str("")}, accent = tg_str("d\xc3\xa9");
    if (record->index == 0) {
        tg_count(record, 0, 2);
        return;
    }
    tg_measure_for(record, 1, -1.5, &accent, 1);
    tg_measure_for(record, 2, 0.75, labels, 2);
    // What is not finite does not count.
    tg_measure_for(record, 1, HUGE_VAL, &accent, 1);
}

// A batch of records without anything, and its answer.
static tg_bytes answer_to_empty(uint32_t records) {
    static const uint8_t seed[16];
    static const tg_test_record none[12];
    return tg_process(&tg_the_operator, tg_test_encode(none, records, 15, 0, seed));
}

static void answers_are_written_as_they_stand(void) {
    tg_bytes golden_answer = bytes_of("answer-every");
    seen = 0;
    operate(answer_every);
    tg_bytes answer = answer_to_empty(12);
    // A replace without changes is written as a pass, whose payload of one byte is not there.
    uint32_t actions = TG_ANSWER_HEADER, payloads = actions + 12;
    TG_EXPECT(answer.length == golden_answer.length - 1);
    TG_EXPECT(answer.at[actions + 2] == TG_ACTION_PASS && golden_answer.at[actions + 2] == TG_ACTION_REPLACE);
    TG_EXPECT(memcmp(answer.at + actions + 3, golden_answer.at + actions + 3, 9) == 0);
    TG_EXPECT(memcmp(answer.at + payloads, golden_answer.at + payloads + 1, answer.length - payloads) == 0);

    static const char *const wholly[] = {"answer-none", "answer-samples"};
    static void (*const doing[])(tg_record *record) = {tg_pass, measure_all};
    for (int at = 0; at < 2; at++) {
        operate(doing[at]);
        TG_EXPECT(tg_same(answer_to_empty(at == 0 ? 0 : 2), bytes_of(wholly[at])));
    }
}

static void golden_answers_are_read_by_the_harness(void) {
    tg_test_outcome outcomes[12];
    operate(tg_pass);
    tg_bytes answer = bytes_of("answer-every");
    TG_EXPECT(!tg_test_decode(answer, 12, outcomes));
    TG_EXPECT(outcomes[6].patch_count == 3 && outcomes[6].patches[1].output == 2);
    TG_EXPECT_TEXT(outcomes[11].reason, "nicht f\xc3\xbcr mich");
    TG_EXPECT(!tg_test_measure(bytes_of("answer-samples"), 2, outcomes));
    TG_EXPECT(tg_test_counter("amounts_total") == 2);
    // No byte less is an answer.
    for (uint32_t length = 0; length < answer.length; length++) {
        uint8_t *cut = malloc(answer.length);
        if (!cut) tg_end("there is no memory left");
        tg_copy(cut, answer);
        if (length >= 8) tg_put_32(cut + 4, length);
        TG_EXPECT(tg_test_decode(tg_bytes_of(cut, length), 12, outcomes));
        free(cut);
    }
}

void test_golden(const char *directory) {
    golden = directory;
    batches_are_read_as_they_stand();
    what_has_to_be_known_and_is_not_is_refused();
    what_is_no_whole_batch_is_refused();
    answers_are_written_as_they_stand();
    golden_answers_are_read_by_the_harness();
}
