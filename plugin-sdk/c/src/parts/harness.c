// Runs the operator in tests on this machine, and counts what is as it should be.

#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

tg_arena tg_test_batch_memory, tg_test_case_memory;

static const uint8_t USUAL_SEED[17] = "a seed for tests";
static int64_t clock_of_batches = INT64_C(1700000000000000);
static uint8_t seed_of_batches[16];
static bool has_seed;

static tg_test_line *lines;
static uint32_t line_count, line_room;
static unsigned ran, failed;
static bool is_quiet;

void tg_host_log(tg_level level, tg_bytes text) {
    if (line_count == line_room) {
        line_room = line_room ? 2 * line_room : 64;
        tg_test_line *moved = (tg_test_line *)realloc(lines, line_room * sizeof *lines);
        if (!moved) tg_end("there is no memory left for lines of the log");
        lines = moved;
    }
    tg_test_line line = {level, tg_kept_copy(text)};
    lines[line_count++] = line;
}

void tg_end(const char *why) {
    fprintf(stderr, "the operator ends: %s\n", why);
    exit(1);
}

void tg_panicked(tg_bytes why) {
    fprintf(stderr, "%.*s", TG_SHOW(why));
    exit(1);
}

bool tg_test_start(const char *config) {
    line_count = 0;
    tg_test_forget_measured();
    tg_running.is_started = false;
#ifdef TIDEGATE_TOKENS
    tg_lanes_forget(&tg_the_tokens);
#endif
    if (!tg_begin(&tg_the_operator, tg_str(config), true)) return false;
    tg_running.is_started = tg_test_is_declared(&tg_the_operator);
    return tg_running.is_started;
}

void tg_test_set_clock(int64_t clock) { clock_of_batches = clock; }

void tg_test_set_seed(const uint8_t seed[16]) {
    memcpy(seed_of_batches, seed, sizeof seed_of_batches);
    has_seed = true;
}

bool tg_test_run(const tg_test_record *records, uint32_t count, tg_test_outcome *outcomes) {
    tg_arena_clear(&tg_test_batch_memory);
    const uint8_t *seed = has_seed ? seed_of_batches : USUAL_SEED;
    tg_bytes batch = tg_test_encode(records, count, tg_the_operator.reads, clock_of_batches, seed);
    if (!batch.at) return tg_refuse(TG_PERMANENT, "refused", "a record has more than a record can have");
    // In memory of exactly its length, so that reading beyond its end shows.
    uint8_t *given = (uint8_t *)malloc(batch.length);
    if (!given) tg_end("there is no memory left for the batch");
    tg_copy(given, batch);
    tg_bytes answer = tg_process(&tg_the_operator, tg_bytes_of(given, batch.length));
    free(given);
    if (!answer.at) return false;
    const char *wrong = tg_test_decode(answer, count, outcomes);
    if (!wrong && !tg_test_can_be(records, count, outcomes)) return false;
    if (!wrong) wrong = tg_test_measure(answer, count, outcomes);
    if (wrong) return tg_refuse(TG_PERMANENT, "refused", "the host refuses the answer: %s", wrong);
    return true;
}

tg_test_outcome tg_test_run_one(tg_test_record record) {
    tg_test_outcome outcome;
    if (tg_test_run(&record, 1, &outcome)) return outcome;
    fprintf(stderr, "the operator fails the batch: %s: %.*s\n", tg_test_failure_code(), TG_SHOW(tg_test_failure()));
    exit(1);
}

tg_class tg_test_failure_class(void) { return tg_running.failure.failure; }
const char *tg_test_failure_code(void) { return tg_running.failure.code ? tg_running.failure.code : ""; }
tg_bytes tg_test_failure(void) { return tg_running.failure.message; }
tg_bytes tg_test_schema(void) { return tg_schema(tg_the_operator.config); }

tg_bytes tg_test_value(const tg_test_outcome *outcome) {
    return outcome->patch_count ? outcome->patches[0].value : tg_null();
}

tg_bytes tg_test_header(const tg_test_outcome *outcome, const char *name) {
    tg_bytes found = tg_null();
    for (uint32_t change = 0; outcome->patch_count && change < outcome->patches[0].header_count; change++) {
        const tg_test_change *one = &outcome->patches[0].headers[change];
        if (tg_equals(one->name, name)) found = one->value;
    }
    return found;
}

tg_bytes tg_test_output(const tg_test_outcome *outcome) {
    tg_output output = outcome->patch_count ? outcome->patches[0].output : TG_MAIN;
    return output ? tg_running.outputs[output - 1] : tg_str("");
}

const tg_test_line *tg_test_log(uint32_t *count) {
    *count = line_count;
    return lines;
}

double tg_test_counter(const char *name) {
    uint32_t count;
    const tg_test_series *series = tg_test_measured(&count);
    double sum = 0;
    for (uint32_t index = 0; index < count; index++) {
        if (strcmp(tg_running.metrics[series[index].metric].name, name) == 0) sum += series[index].sum;
    }
    return sum;
}

void tg_test_ran(void) { ran++; }

void tg_test_failed(const char *format, ...) {
    failed++;
    if (is_quiet) return;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

unsigned tg_test_failures_of_cases(const char *pattern) {
    unsigned before = failed;
    is_quiet = true;
    tg_test_cases(pattern);
    is_quiet = false;
    unsigned found = failed - before;
    failed = before;
    return found;
}

bool tg_test_expect(bool is_right, const char *condition, const char *file, int line) {
    tg_test_ran();
    if (!is_right) tg_test_failed("%s:%d: it is not so that %s", file, line, condition);
    return is_right;
}

bool tg_test_expect_text(tg_bytes found, const char *expected, const char *file, int line) {
    tg_test_ran();
    if (tg_equals(found, expected)) return true;
    if (found.at) {
        tg_test_failed("%s:%d: expected \"%s\", found \"%.*s\"", file, line, expected, TG_SHOW(found));
    } else {
        tg_test_failed("%s:%d: expected \"%s\", found null", file, line, expected);
    }
    return false;
}

int tg_test_end(void) {
    printf("%u tests, %u failed\n", ran, failed);
    return failed == 0 && ran != 0 ? 0 : 1;
}
