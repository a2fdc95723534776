// Runs files of cases, which are the same for all languages.

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "testing.h"

static void set_seed(tg_json json) {
    uint8_t seed[17] = "a seed for tests";
    tg_bytes digits = json.at ? text_of(json) : tg_null();
    for (uint32_t at = 0; digits.at && at < 32; at++) {
        const char *hex = "0123456789abcdefABCDEF", *digit = NULL;
        if (at < digits.length && digits.at[at]) digit = strchr(hex, digits.at[at]);
        if (!digit || digits.length != 32) {
            fail("the seed is not 32 hexadecimal digits");
            return;
        }
        uint8_t half = (uint8_t)(digit - hex < 16 ? digit - hex : digit - hex - 6);
        seed[at / 2] = at % 2 ? (uint8_t)(seed[at / 2] | half) : (uint8_t)(half << 4);
    }
    tg_test_set_seed(seed);
}

static void run_case(tg_json json, tg_json usual_config) {
    tg_json config = tg_json_member(json, "config"), refused = tg_json_member(json, "refused");
    tg_json clock = tg_json_member(json, "clock"), failure = tg_json_member(json, "failure");
    tg_json log = tg_json_member(json, "log"), metrics = tg_json_member(json, "metrics");
    if (!config.at) config = usual_config;
    set_seed(tg_json_member(json, "seed"));
    tg_test_set_clock(clock.at ? integer_of(clock) : INT64_C(1700000000000000));
    tg_bytes source = config.at ? tg_json_source(config) : tg_str("{}");
    char *text = (char *)room(source.length + 1, 1);
    tg_copy((uint8_t *)text, source);
    bool is_started = tg_test_start(text);
    if (refused.at || !is_started) {
        if (is_started) fail("expected that it is refused, it starts");
        if (!refused.at) fail("it does not start: %.*s", TG_SHOW(tg_test_failure()));
        if (!is_started && refused.at) compare_failure(refused);
        return;
    }
    tg_json tokens = tg_json_member(json, "tokens");
    if (tokens.at) {
        run_tokens(tokens, failure, log);
        return;
    }
    tg_json records = tg_json_member(json, "records");
    uint32_t count = count_of(records), index = 0;
    tg_test_record *given = (tg_test_record *)room(count, sizeof *given);
    tg_test_outcome *outcomes = (tg_test_outcome *)room(count, sizeof *outcomes);
    tg_json_items items = tg_json_items_of(records);
    for (tg_json one; tg_json_next(&items, NULL, &one); index++) given[index] = record_of(one, index);
    if (is_failed) return;
    bool is_run = tg_test_run(given, count, outcomes);
    if (!is_run && !failure.at) {
        fail("the batch fails: %.*s", TG_SHOW(tg_test_failure()));
    } else if (failure.at) {
        if (is_run) fail("expected that the batch fails, it does not");
        else compare_failure(failure);
    } else {
        compare_outcomes(tg_json_member(json, "outcomes"), outcomes, count);
    }
    if (log.at) compare_log(log);
    if (metrics.at) compare_metrics(metrics);
}

// The text of a file; null if it cannot be read.
static tg_bytes read_file(const char *path) {
    FILE *from = fopen(path, "rb");
    if (!from) return tg_null();
    size_t length = 0, space = 65536, got;
    uint8_t *at = (uint8_t *)malloc(space);
    while (at && (got = fread(at + length, 1, space - length, from)) != 0) {
        length += got;
        if (length == space) at = (uint8_t *)realloc(at, space *= 2);
    }
    fclose(from);
    return tg_bytes_of(at, length);
}

static void run_file(const char *path) {
    file = path;
    case_name = tg_str("");
    tg_json whole;
    uint32_t at;
    tg_bytes text = read_file(path);
    const char *wrong = text.at ? tg_json_read(text, &whole, &at) : "it cannot be read";
    tg_json cases = {NULL, NULL};
    if (!wrong) cases = tg_json_member(whole, "cases");
    if (!wrong && tg_json_kind_of(cases) != TG_JSON_ARRAY) wrong = "it has no list `cases`";
    if (wrong) {
        tg_test_ran();
        tg_test_failed("%s: %s", path, wrong);
    }
    tg_json_items items = tg_json_items_of(cases);
    for (tg_json one; tg_json_next(&items, NULL, &one);) {
        bool is_for_sandbox = false;
        tg_json_boolean(tg_json_member(one, "sandbox"), &is_for_sandbox);
        if (is_for_sandbox) continue;
        tg_arena_clear(&tg_test_case_memory);
        is_failed = false;
        case_name = tg_str("without a name");
        case_name = text_of(tg_json_member(one, "name"));
        tg_test_ran();
        run_case(one, tg_json_member(whole, "config"));
    }
    free((void *)(uintptr_t)text.at);
}

void tg_test_cases(const char *pattern) {
    glob_t found;
    // What matches nothing is taken as the name of a file, which is then missing.
    if (glob(pattern, GLOB_NOCHECK, NULL, &found) != 0) tg_end("there is no memory left for names of files");
    for (size_t path = 0; path < found.gl_pathc; path++) run_file(found.gl_pathv[path]);
    globfree(&found);
}
