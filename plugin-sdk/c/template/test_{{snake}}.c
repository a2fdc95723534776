// Runs the operator on this machine, through the same encoding as in WebAssembly.

#include "tidegate/tg_harness.h"

static tg_test_outcome answer_to(const char *text) {
    TG_EXPECT(tg_test_start("{\"words\": [\"secret\"]}"));
    tg_test_record record = {.value = tg_str(text)};
    return tg_test_run_one(record);
}

static void a_listed_word_is_masked(void) {
    tg_test_outcome outcome = answer_to("a secret, kept");
    TG_EXPECT_TEXT(tg_test_value(&outcome), "a ***, kept");
}

static void what_has_none_passes_as_it_is(void) {
    tg_test_outcome outcome = answer_to("nothing to see");
    TG_EXPECT(outcome.action == TG_PASSED);
}

static void a_wrong_configuration_is_refused_by_its_key(void) {
    TG_EXPECT(!tg_test_start("{\"words\": [\"\"]}"));
    TG_EXPECT_TEXT(tg_test_failure(), "config key `words[0]` has 0 characters, expected at least 1");
}

int main(void) {
    a_listed_word_is_masked();
    what_has_none_passes_as_it_is();
    a_wrong_configuration_is_refused_by_its_key();
    tg_test_cases("cases/*.json");
    return tg_test_end();
}
