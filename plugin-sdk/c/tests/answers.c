// What becomes of records, beyond what the conformance suite asks.

// What ends the instance is called in a process of its own.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk_tests.h"

static tg_test_outcome answer_of(void (*process)(tg_record *record)) {
    operate(process);
    tg_test_record record = {.key = tg_str("k"), .value = tg_str("v")};
    return tg_test_run_one(record);
}

static void change_then_drop(tg_record *record) {
    tg_set_value(record, tg_str("changed"));
    tg_drop(record);
}

static void drop_then_change(tg_record *record) {
    tg_drop(record);
    tg_set_key(record, tg_str("changed"));
}

static void split_then_retry(tg_record *record) {
    tg_piece(record, 1);
    tg_set_value(record, tg_str("piece"));
    tg_retry(record, 5, tg_str("busy"));
}

static void what_is_said_last_counts(void) {
    TG_EXPECT(answer_of(change_then_drop).action == TG_DROPPED);
    tg_test_outcome changed = answer_of(drop_then_change);
    TG_EXPECT(changed.action == TG_REPLACED && tg_equals(changed.patches[0].key, "changed"));
    tg_test_outcome retried = answer_of(split_then_retry);
    TG_EXPECT(retried.action == TG_RETRIED && retried.retry_milliseconds == 5);
    TG_EXPECT_TEXT(retried.reason, "busy");
}

static void route_nowhere(tg_record *record) {
    tg_route(record, 3);
    tg_set_value(record, tg_str("changed"));
}

static void piece_nowhere(tg_record *record) {
    tg_piece(record, TG_MAIN);
    tg_piece(record, TG_NO_OUTPUT);
    tg_set_value(record, tg_str("changed"));
}

static void route_to_null(tg_record *record) { tg_route_to(record, tg_null()); }

static void an_output_that_is_not_declared_is_a_dead_letter_whatever_follows(void) {
    tg_test_outcome outcome = answer_of(route_nowhere);
    TG_EXPECT_TEXT(outcome.reason, "output 3 is not declared, the operator has 2");
    outcome = answer_of(piece_nowhere);
    TG_EXPECT_TEXT(outcome.reason, "output 65535 is not declared, the operator has 2");
    outcome = answer_of(route_to_null);
    TG_EXPECT_TEXT(outcome.reason, "there is no output \"\", the operator has \"left\", \"right\"");
}

static void name_too_long(tg_record *record) {
    char *name = tg_memory(65536);
    memset(name, 'n', 65536);
    tg_set_header(record, tg_bytes_of(name, 65535), tg_str("as long as may be"));
    tg_add_attribute(record, tg_bytes_of(name, 65536), tg_null());
    tg_set_value(record, tg_str("changed"));
}

static void too_many_headers(tg_record *record) {
    for (int header = 0; header < 65536; header++) tg_add_header(record, tg_str("h"), tg_null());
}

// Each byte becomes three.
static void name_too_long_as_text(tg_record *record) {
    char *name = tg_memory(65535);
    memset(name, 0xff, 65535);
    tg_set_header(record, tg_bytes_of(name, 21845), tg_str("as long as may be"));
    tg_count(record, 0, 1);
    tg_set_header(record, tg_bytes_of(name, 65535), tg_str("longer"));
}

static void format_that_is_none(tg_record *record) {
    const char *format = "%d is %a and %s";
    tg_set_header(record, tg_str("h"), tg_format(format, 1, 2.0, "3"));
}

static void changes_that_cannot_be_are_a_dead_letter(void) {
    tg_test_outcome outcome = answer_of(name_too_long);
    TG_EXPECT_TEXT(outcome.reason,
                   "changes cannot be applied: a name of 65536 bytes among the attributes exceeds the limit of 65535");
    outcome = answer_of(name_too_long_as_text);
    TG_EXPECT_TEXT(outcome.reason,
                   "changes cannot be applied: a name of 196605 bytes among the headers exceeds the limit of 65535");
    // What was measured beside it does not count.
    TG_EXPECT(tg_test_counter("amounts_total") == 0);
    outcome = answer_of(format_that_is_none);
    TG_EXPECT_TEXT(outcome.reason,
                   "a format has a conversion that is none of d, i, u, o, x, X, f, e, g, c, s, p and %");
    outcome = answer_of(too_many_headers);
    TG_EXPECT_TEXT(outcome.reason, "changes cannot be applied: there are more than 65535 of the headers");
}

static void not_text(tg_record *record) { tg_set_header(record, tg_str("n\xff"), tg_str("v\xff")); }

static void not_text_as_reason(tg_record *record) { tg_dead_letter(record, tg_str("no \xe2\x82 text")); }

static void names_and_reasons_are_always_text(void) {
    tg_test_outcome outcome = answer_of(not_text);
    TG_EXPECT_TEXT(tg_test_header(&outcome, "n\xef\xbf\xbd"), "v\xff");
    outcome = answer_of(not_text_as_reason);
    TG_EXPECT_TEXT(outcome.reason, "no \xef\xbf\xbd text");
}

static void set_in_place(tg_record *record) {
    tg_set_header(record, tg_str("h"), tg_str("1"));
    memcpy(tg_set_value_in_place(record, 5), "place", 5);
    tg_set_key(record, tg_str("k"));
}

static void a_value_is_written_where_it_goes(void) {
    tg_test_outcome outcome = answer_of(set_in_place);
    TG_EXPECT_TEXT(tg_test_value(&outcome), "place");
    TG_EXPECT_TEXT(tg_test_header(&outcome, "h"), "1");
}

static void measure_too_much(tg_record *record) {
    for (int at = 0; at < 257; at++) tg_count(record, 0, 1);
}
static void measure_nothing_known(tg_record *record) { tg_count(record, 3, 1); }
static void measure_a_gauge_as_counter(tg_record *record) { tg_count(record, 1, 1); }
static void measure_without_labels(tg_record *record) { tg_measure(record, 1, 1); }
static void measure_a_long_label(tg_record *record) {
    char text[300];
    memset(text, 'x', sizeof text);
    // A character of two bytes at the limit.
    memcpy(text + 255, "\xc3\xa4", 2);
    tg_bytes label = tg_bytes_of(text, sizeof text);
    tg_measure_for(record, 1, 1, &label, 1);
}

static void what_the_host_would_refuse_is_not_measured(void) {
    tg_test_outcome outcome = answer_of(measure_too_much);
    TG_EXPECT_TEXT(outcome.reason, "257 measurements of a record, at most 256 can be");
    TG_EXPECT(tg_test_counter("amounts_total") == 0);
    outcome = answer_of(measure_nothing_known);
    TG_EXPECT_TEXT(outcome.reason, "metric 3 is not declared, the operator has 3");
    outcome = answer_of(measure_a_gauge_as_counter);
    TG_EXPECT_TEXT(outcome.reason, "metric level is not a counter");
    outcome = answer_of(measure_without_labels);
    TG_EXPECT_TEXT(outcome.reason, "metric level is measured with 0 labels, it has 1");
    answer_of(measure_a_long_label);
    uint32_t count;
    const tg_test_series *series = tg_test_measured(&count);
    TG_EXPECT(count == 1 && series->labels[0].length == 255);
}

static void fail_without_a_code(tg_record *record) { tg_fail(record, TG_TRANSIENT, NULL, "not %s", "now"); }

static void a_failure_is_one_without_a_code_too(void) {
    tg_test_record record = {.value = tg_null()};
    tg_test_outcome outcome;
    operate(fail_without_a_code);
    TG_EXPECT(!tg_test_run(&record, 1, &outcome));
    TG_EXPECT(strcmp(tg_test_failure_code(), "unnamed") == 0 && tg_test_failure_class() == TG_TRANSIENT);
    TG_EXPECT_TEXT(tg_test_failure(), "not now");
    operate(tg_pass);
    TG_EXPECT(tg_test_run(&record, 1, &outcome) && outcome.action == TG_PASSED);
}

static void add_sizes(void) { tg_sum(SIZE_MAX - 3, 4); }
static void grow_a_buffer(void) { tg_buffer_grow(&(tg_buffer){NULL, SIZE_MAX - 3, 0}, 4); }
static void grow_a_text(void) { tg_write_text(&(tg_writer){NULL, SIZE_MAX - 3, SIZE_MAX - 3}, "text"); }
static void take_memory(void) { tg_memory(SIZE_MAX - 3); }

static void sizes_that_cannot_be_end_the_instance(void) {
    static void (*const all[])(void) = {add_sizes, grow_a_buffer, grow_a_text, take_memory};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        pid_t child = fork();
        if (child == 0) {
            close(STDERR_FILENO);
            all[at]();
            _exit(0);
        }
        int status = 0;
        TG_EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1);
    }
}

static const char *const named[] = {"a", "b", NULL}, *const named_twice[] = {"a", "b", "a", NULL};
static void name_more(void) {
    tg_name_output(tg_str("b"));
    tg_name_output(tg_str("c"));
}

static void outputs_have_the_numbers_they_stand_at(void) {
    tg_operator with = {.name = "sdk-tests", .version = "1.0.0", .outputs = named_twice};
    TG_EXPECT(!tg_begin(&with, tg_str("{}"), true) && !tg_begin(&with, tg_str("{}"), false));
    TG_EXPECT_TEXT(tg_test_failure(), "the output \"a\" is there twice in .outputs");
    with.outputs = named;
    with.name_outputs = name_more;
    TG_EXPECT(tg_begin(&with, tg_str("{}"), true));
    TG_EXPECT(tg_output_of(tg_str("b")) == 2 && tg_output_of(tg_str("c")) == 3);
}

// More than the first block of memory, for each record of a batch.
static void take_much(tg_record *record) {
    uint8_t *much = tg_memory(100000);
    memset(much, (int)record->index, 100000);
    tg_set_value(record, tg_bytes_of(much, 100000));
}

static void memory_of_a_record_is_its_own(void) {
    tg_test_record records[40] = {{.value = tg_null()}};
    tg_test_outcome outcomes[40];
    operate(take_much);
    TG_EXPECT(tg_test_run(records, 40, outcomes));
    for (uint32_t record = 0; record < 40; record++) {
        tg_bytes value = tg_test_value(&outcomes[record]);
        TG_EXPECT(value.length == 100000 && value.at[0] == record && value.at[99999] == record);
    }
}

// Picks what to say by random numbers, of which the record's offset is the seed.
static void say_anything(tg_record *record) {
    tg_random random = tg_random_of(record);
    for (uint64_t step = tg_random_below(&random, 12); step != 0; step--) {
        uint8_t bytes[64];
        uint32_t length = (uint32_t)tg_random_below(&random, sizeof bytes);
        for (uint32_t at = 0; at < length; at++) bytes[at] = (uint8_t)tg_random_bits(&random);
        tg_bytes any = tg_random_chance(&random, 0.2) ? tg_null() : tg_bytes_of(bytes, length);
        switch (tg_random_below(&random, 16)) {
        case 0: tg_pass(record); break;
        case 1: tg_drop(record); break;
        case 2: tg_replace(record); break;
        case 3: tg_split(record); break;
        case 4: tg_piece(record, (tg_output)tg_random_below(&random, 3)); break;
        case 5: tg_route(record, (tg_output)tg_random_below(&random, 3)); break;
        case 6: tg_retry(record, 1, any); break;
        case 7: tg_dead_letter(record, any); break;
        case 8: tg_set_key(record, any); break;
        case 9: tg_set_value(record, any); break;
        case 10: tg_set_header(record, any, any); break;
        case 11: tg_remove_header(record, any); break;
        case 12: tg_add_attribute(record, any, any); break;
        case 13: tg_set_event_time(record, (int64_t)tg_random_bits(&random)); break;
        case 14: tg_route_to(record, any); break;
        default: memset(tg_set_value_in_place(record, length), 7, length);
        }
    }
}

static void whatever_is_said_the_host_takes_the_answer(void) {
    enum { RECORDS = 64 };
    static tg_test_outcome outcomes[RECORDS];
    static tg_test_record records[RECORDS];
    static tg_id ids[RECORDS];
    operate(say_anything);
    for (uint64_t batch = 0; batch < 200; batch++) {
        for (uint32_t record = 0; record < RECORDS; record++) {
            ids[record].offset = batch * RECORDS + record;
            records[record].id = &ids[record];
        }
        TG_EXPECT(tg_test_run(records, RECORDS, outcomes));
    }
}

void test_answers(void) {
    what_is_said_last_counts();
    an_output_that_is_not_declared_is_a_dead_letter_whatever_follows();
    changes_that_cannot_be_are_a_dead_letter();
    names_and_reasons_are_always_text();
    a_value_is_written_where_it_goes();
    what_the_host_would_refuse_is_not_measured();
    a_failure_is_one_without_a_code_too();
    sizes_that_cannot_be_end_the_instance();
    outputs_have_the_numbers_they_stand_at();
    memory_of_a_record_is_its_own();
    whatever_is_said_the_host_takes_the_answer();
}
