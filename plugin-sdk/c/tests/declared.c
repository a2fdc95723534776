// What the host refuses of an operator, or of an answer to a record, is refused in tests.

#include <stdlib.h>

#include "sdk_tests.h"

static const tg_operator RIGHT = {.name = "sdk-tests", .version = "1.0.0"};

static void is_refused(tg_operator with, const char *why) {
    TG_EXPECT(tg_begin(&with, tg_str("{}"), true) && !tg_test_is_declared(&with));
    tg_bytes said = tg_test_failure(), before = tg_str("the host refuses the operator: ");
    said = tg_bytes_of(said.at + before.length, said.length - before.length);
    TG_EXPECT_TEXT(said, why);
}

static void names_and_versions_are_held_against_the_contract(void) {
    tg_operator with = RIGHT;
    static const char *const versions[] = {"0.0.0", "1.2.3-rc.1", "1.2.3+build.05", "10.20.30-a-b.0+c", "1.0.0--"};
    for (size_t at = 0; at < sizeof versions / sizeof *versions; at++) {
        with.version = versions[at];
        TG_EXPECT(tg_begin(&with, tg_str("{}"), true) && tg_test_is_declared(&with));
    }
    with = RIGHT;
    with.name = NULL;
    is_refused(with, "its name is empty");
    with.name = "two\nlines";
    is_refused(with, "its name has characters that cannot be shown: \"two\nlines\"");
    with.name = "a\xe2\x80\x8d";
    is_refused(with, "its name has characters that cannot be shown: \"a\xe2\x80\x8d\"");
    with = RIGHT;
    with.version = "1.0";
    is_refused(with, "its version \"1.0\" is not semver, such as 1.2.3");
    with.version = "1.0.0-01";
    is_refused(with, "its version \"1.0.0-01\" is not semver, such as 1.2.3");
    static const char *const outputs[] = {"left", "ri\xe2\x80\xa8ght", NULL};
    with = RIGHT;
    with.outputs = outputs;
    is_refused(with, "its output has characters that cannot be shown: \"ri\xe2\x80\xa8ght\"");
}

static void metric_is_refused(tg_metric metric, const char *why) {
    tg_metric metrics[] = {metric, {.name = NULL}};
    tg_operator with = RIGHT;
    with.metrics = metrics;
    is_refused(with, why);
}

static void metrics_are_held_against_the_contract(void) {
    static const char *const twice[] = {"a", "b", "a", NULL}, *const reserved[] = {"slot", NULL};
    static const char *const many[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", NULL};
    static const double unsorted[] = {1, 3, 2};
    double zero = 0, none[] = {1, zero / zero};
    static double long_list[33];
    for (int at = 0; at < 33; at++) long_list[at] = at;
    metric_is_refused((tg_metric){.name = "A"},
                      "its metric \"A\" has a name that is not [a-z][a-z0-9_]*, at most 64 bytes");
    metric_is_refused((tg_metric){.name = "a", .help = "two\nlines"},
                      "its metric \"a\" has a help that is not one line of at most 512 bytes");
    metric_is_refused((tg_metric){.name = "a", .labels = twice}, "its metric \"a\" has the label \"a\" twice");
    metric_is_refused((tg_metric){.name = "a", .labels = reserved},
                      "its metric \"a\" has the label \"slot\", which no label may be");
    metric_is_refused((tg_metric){.name = "a", .labels = many}, "its metric \"a\" has more than 8 labels");
    metric_is_refused((tg_metric){.name = "a", .kind = TG_HISTOGRAM, .bounds = unsorted, .bound_count = 3},
                      "its metric \"a\" has bounds that are not finite and ascending");
    metric_is_refused((tg_metric){.name = "a", .kind = TG_HISTOGRAM, .bounds = none, .bound_count = 2},
                      "its metric \"a\" has bounds that are not finite and ascending");
    metric_is_refused((tg_metric){.name = "a", .kind = TG_HISTOGRAM, .bounds = long_list, .bound_count = 33},
                      "its metric \"a\" has 33 bounds, limit 32");
    metric_is_refused((tg_metric){.name = "a", .kind = TG_GAUGE, .bounds = unsorted, .bound_count = 1},
                      "its metric \"a\" has bounds and is no histogram");
    metric_is_refused((tg_metric){.name = "series_refused"},
                      "its metric \"series_refused\" is shown as one of the host");
    static const tg_metric same[] = {
        {.name = "a", .kind = TG_HISTOGRAM}, {.name = "a_sum", .kind = TG_GAUGE}, {.name = NULL}};
    tg_operator with = RIGHT;
    with.metrics = same;
    is_refused(with, "its metric \"a_sum\" is shown as a_sum, as its metric \"a\" is");
    static char names[65][4];
    static tg_metric too_many[66];
    for (int at = 0; at < 65; at++) {
        names[at][0] = 'm';
        names[at][1] = (char)('a' + at / 26);
        names[at][2] = (char)('a' + at % 26);
        too_many[at].name = names[at];
    }
    with.metrics = too_many;
    is_refused(with, "it has 65 metrics, limit 64");
}

static void add_a_header(tg_record *record) { tg_add_header(record, tg_str("b"), tg_str("1")); }
static void set_a_header(tg_record *record) { tg_set_header(record, tg_str("a"), tg_str("1")); }

static void a_record_has_no_more_headers_than_can_be_counted(void) {
    tg_pair *headers = malloc(65535 * sizeof *headers);
    if (!headers) tg_end("there is no memory left");
    for (int at = 0; at < 65535; at++) headers[at] = (tg_pair){tg_str("a"), tg_null()};
    tg_test_record record = {.headers = headers, .header_count = 65535};
    tg_test_outcome outcome;
    operate(add_a_header);
    TG_EXPECT(!tg_test_run(&record, 1, &outcome));
    TG_EXPECT_TEXT(tg_test_failure(),
                   "the host refuses the answer: record 1 with 65536 headers exceeds the limit of 65535");
    record.header_count = 65534;
    TG_EXPECT(tg_test_run(&record, 1, &outcome));
    record.header_count = 65535;
    operate(set_a_header);
    TG_EXPECT(tg_test_run(&record, 1, &outcome));
    free(headers);
}

void test_declared(void) {
    names_and_versions_are_held_against_the_contract();
    metrics_are_held_against_the_contract();
    a_record_has_no_more_headers_than_can_be_counted();
}
