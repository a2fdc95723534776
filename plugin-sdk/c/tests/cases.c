// Cases: what is as they say passes, and whatever is otherwise is found.

#include "sdk_tests.h"

static void do_everything(tg_record *record) {
    tg_set_value(record, tg_str("x"));
    tg_set_header(record, tg_str("a"), tg_str("1"));
    tg_set_event_time(record, 5);
    tg_log(TG_WARN, "a line");
    tg_count(record, 0, 1);
}

void test_cases(void) {
    operate(do_everything);
    TG_EXPECT(tg_test_failures_of_cases("right.json") == 0);
    // One for each of its cases.
    TG_EXPECT(tg_test_failures_of_cases("wrong.json") == 29);
    TG_EXPECT(tg_test_failures_of_cases("none.json") == 1);
}
