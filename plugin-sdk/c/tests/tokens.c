// What handles tokens: lanes, what is held back, and what is cut.

#include <stdlib.h>

#include "sdk_tests.h"

typedef struct counted {
    uint32_t steps;
    char *kept;
} counted;

static void (*stepping)(tg_step *step);
static int closed;

static bool open_lane(const tg_lane *lane, void *state) {
    counted *of = (counted *)state;
    of->kept = (char *)malloc(1);
    if (tg_equals(lane->model, "refused")) return tg_refuse(TG_TRANSIENT, "no-lane", "not this one");
    if (tg_equals(lane->model, "silently refused")) return false;
    if (tg_equals(lane->model, "hex")) tg_format("%a", 1.0);
    of->steps = lane->attribute_count;
    return true;
}

static void step(tg_step *of) { stepping(of); }

static void close_lane(void *state) {
    free(((counted *)state)->kept);
    closed++;
}

TG_TOKENS(.state = sizeof(counted), .open = open_lane, .step = step, .close = close_lane);

static void nothing(tg_record *record) { (void)record; }

// A lane of an operator that was started.
static uint64_t opened(void (*with)(tg_step *step)) {
    stepping = with;
    operate(nothing);
    tg_lane lane = {.choice = 0};
    uint64_t number = tg_test_open(&lane);
    TG_EXPECT(number != 0);
    return number;
}

static tg_bytes through(uint64_t lane, const char *text, bool is_last) {
    tg_test_through came;
    TG_EXPECT(tg_test_step(lane, tg_str(text), is_last, &came));
    return came.text;
}

static void count(tg_step *of) {
    counted *state = (counted *)of->state;
    tg_let_through(of, of->text);
    tg_let_through(of, tg_format("%u%s", ++state->steps, of->is_last ? "." : ""));
}

static void what_a_lane_keeps_is_its_own(void) {
    uint64_t one = opened(count);
    tg_lane lane = {.choice = 1};
    uint64_t other = tg_test_open(&lane);
    TG_EXPECT_TEXT(through(one, "a", false), "a1");
    TG_EXPECT_TEXT(through(other, "b", false), "b1");
    TG_EXPECT_TEXT(through(one, "c", true), "c2.");
    closed = 0;
    tg_bytes pieces[] = {tg_str("x"), tg_str("y")};
    tg_test_through sum;
    TG_EXPECT(tg_test_run_lane(other, pieces, 2, &sum));
    TG_EXPECT_TEXT(sum.text, "x2y3.");
    TG_EXPECT(closed == 1);
    TG_EXPECT(!tg_test_step(other, tg_str("z"), false, &sum));
    TG_EXPECT_TEXT(tg_str(tg_test_failure_code()), "unknown-lane");
    // The other of the two goes with its instance.
    operate(nothing);
    TG_EXPECT(closed == 2);
}

static void hold_two(tg_step *of) {
    uint32_t held = of->is_last ? 0 : of->text.length < 2 ? of->text.length : 2;
    tg_let_through(of, tg_bytes_of(of->text.at, of->text.length - held));
    // More than there is, is all of it.
    tg_hold_back(of, held == of->text.length ? UINT32_MAX : held);
}

static void what_is_held_back_comes_again(void) {
    uint64_t lane = opened(hold_two);
    TG_EXPECT_TEXT(through(lane, "a", false), "");
    TG_EXPECT_TEXT(through(lane, "", false), "");
    TG_EXPECT_TEXT(through(lane, "bcd", false), "ab");
    TG_EXPECT_TEXT(through(lane, "e", true), "cde");
}

static void hold_one(tg_step *of) {
    uint32_t held = of->is_last ? 0 : 1;
    tg_let_through(of, tg_bytes_of(of->text.at, of->text.length - held));
    tg_hold_back(of, held);
}

static void bytes_of_a_cut_character_stay_together(void) {
    uint64_t lane = opened(hold_one);
    TG_EXPECT_TEXT(through(lane, "a\xf0\x9f\x98\x80", false), "a");
    TG_EXPECT_TEXT(through(lane, "b\xc3\xa9", false), "\xf0\x9f\x98\x80" "b");
    TG_EXPECT_TEXT(through(lane, "x\xf0\x9f", false), "\xc3\xa9x");
    TG_EXPECT_TEXT(through(lane, "y", false), "");
    TG_EXPECT_TEXT(through(lane, "\xf0", true), "\xef\xbf\xbdy\xef\xbf\xbd");
}

static void end_at_bad(tg_step *of) {
    if (tg_equals(of->text, "bad")) {
        tg_let_through(of, tg_str("so far"));
        tg_end_answer(of, TG_FILTERED);
    } else {
        tg_let_through(of, of->text);
    }
}

static void an_answer_ends_where_the_handler_says(void) {
    tg_bytes pieces[] = {tg_str("good "), tg_str("bad"), tg_str("more")};
    tg_test_through sum;
    TG_EXPECT(tg_test_run_lane(opened(end_at_bad), pieces, 3, &sum));
    TG_EXPECT_TEXT(sum.text, "good so far");
    TG_EXPECT(sum.end == TG_FILTERED);
}

static void fail(tg_step *of) {
    if (tg_equals(of->text, "hex")) tg_let_through(of, tg_format("%a", 1.0));
    else tg_fail_lanes(of, TG_TRANSIENT, "not-now", "%s", "later");
}

static void a_failure_is_told(void) {
    tg_test_through came;
    uint64_t lane = opened(fail);
    TG_EXPECT(!tg_test_step(lane, tg_str("x"), false, &came));
    TG_EXPECT(tg_test_failure_class() == TG_TRANSIENT);
    TG_EXPECT_TEXT(tg_str(tg_test_failure_code()), "not-now");
    TG_EXPECT_TEXT(tg_test_failure(), "later");
    TG_EXPECT(!tg_test_step(opened(fail), tg_str("hex"), false, &came));
    TG_EXPECT_TEXT(tg_str(tg_test_failure_code()), "refused");
}

static void a_lane_may_be_refused(void) {
    static const char *const CODES[][2] = {{"refused", "no-lane"}, {"silently refused", "refused"}, {"hex", "refused"}};
    opened(count);
    for (int one = 0; one < 3; one++) {
        tg_lane lane = {.model = tg_str(CODES[one][0])};
        closed = 0;
        TG_EXPECT(tg_test_open(&lane) == 0);
        TG_EXPECT_TEXT(tg_str(tg_test_failure_code()), CODES[one][1]);
        TG_EXPECT(closed == 1);
    }
}

static void a_lane_tells_of_its_record(void) {
    const tg_pair pairs[] = {{tg_str("a"), tg_str("1")}, {tg_str("a"), tg_str("2")}, {tg_str("b"), tg_str("")}};
    tg_lane lane = {.attributes = pairs, .attribute_count = 3};
    TG_EXPECT_TEXT(tg_lane_attribute(&lane, "a"), "2");
    TG_EXPECT_TEXT(tg_lane_attribute(&lane, "b"), "");
    TG_EXPECT(tg_is_null(tg_lane_attribute(&lane, "c")));
    opened(count);
    uint64_t number = tg_test_open(&lane);
    TG_EXPECT_TEXT(through(number, "", false), "4");
}

// Takes no text for nothing to do, and so never says what it has held back.
static void forget(tg_step *of) {
    counted *state = (counted *)of->state;
    if (of->text.length == state->steps) return;
    state->steps = of->is_last ? 0 : of->text.length;
    tg_let_through(of, tg_bytes_of(of->text.at, of->text.length - state->steps));
    tg_hold_back(of, state->steps);
}

static void cases_find_what_is_lost_where_the_end_comes_without_a_text(void) {
    stepping = forget;
    TG_EXPECT(tg_test_failures_of_cases("held.json") == 1);
}

static void cases_say_what_differs(void) {
    stepping = end_at_bad;
    TG_EXPECT(tg_test_failures_of_cases("tokens.json") == 6);
}

void test_tokens(void) {
    what_a_lane_keeps_is_its_own();
    what_is_held_back_comes_again();
    bytes_of_a_cut_character_stay_together();
    an_answer_ends_where_the_handler_says();
    a_failure_is_told();
    a_lane_may_be_refused();
    a_lane_tells_of_its_record();
    cases_find_what_is_lost_where_the_end_comes_without_a_text();
    cases_say_what_differs();
}
