// Cases: what is as they say passes, and whatever is otherwise is found.

#include "sdk_tests.h"

static void do_everything(tg_record *record) {
    tg_set_value(record, tg_str("x"));
    tg_set_header(record, tg_str("a"), tg_str("1"));
    tg_set_event_time(record, 5);
    tg_log(TG_WARN, "a line");
    tg_count(record, 0, 1);
}

static void do_what_means_something_simpler(tg_record *record) {
    tg_bytes value = tg_value(record);
    if (tg_equals(value, "split")) {
        tg_split(record);
        return;
    }
    tg_route(record, TG_MAIN);
    if (tg_equals(value, "changed")) tg_set_value(record, tg_str("x"));
    tg_count(record, 0, 0);
}

void test_cases(void) {
    operate(do_everything);
    TG_EXPECT(tg_test_failures_of_cases("right.json") == 0);
    // One for each of its cases.
    TG_EXPECT(tg_test_failures_of_cases("wrong.json") == 29);
    TG_EXPECT(tg_test_failures_of_cases("none.json") == 1);
    operate(do_what_means_something_simpler);
    TG_EXPECT(tg_test_failures_of_cases("same.json") == 0);
}
