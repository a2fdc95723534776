// What the operator of the conformance suite does with the text of answers: ../README.md says what.

#include <stdlib.h>

#include "tidegate/tidegate.h"

typedef struct answer answer;

struct answer {
    void (*step)(tg_step *step);
    // Of `lane`: what is told of it.
    char *told;
};

static void pass(tg_step *step) { tg_let_through(step, step->text); }

static void upper(tg_step *step) {
    uint8_t *text = (uint8_t *)tg_memory(step->text.length);
    for (uint32_t at = 0; at < step->text.length; at++) {
        uint8_t byte = step->text.at[at];
        text[at] = (uint8_t)(byte >= 'a' && byte <= 'z' ? byte - 32 : byte);
    }
    tg_let_through(step, tg_bytes_of(text, step->text.length));
}

// Lets all but the last so many bytes through.
static void hold(tg_step *step, uint32_t most) {
    uint32_t held = step->is_last ? 0 : most < step->text.length ? most : step->text.length;
    tg_let_through(step, tg_bytes_of(step->text.at, step->text.length - held));
    tg_hold_back(step, held);
}

static void hold_all(tg_step *step) { hold(step, UINT32_MAX); }

// A character may have several bytes: the SDK keeps them together.
static void tail(tg_step *step) { hold(step, 1); }

static void silent(tg_step *step) { (void)step; }

// Ends the answer at the word, and holds back what may become it.
static void until(tg_step *step, tg_ending how) {
    static const char WORD[] = "END";
    const uint32_t length = sizeof WORD - 1;
    tg_bytes text = step->text;
    for (uint32_t at = 0; at + length <= text.length; at++) {
        if (memcmp(text.at + at, WORD, length) != 0) continue;
        tg_let_through(step, tg_bytes_of(text.at, at));
        tg_end_answer(step, how);
        return;
    }
    uint32_t held = length - 1 < text.length ? length - 1 : text.length;
    while (memcmp(text.at + text.length - held, WORD, held) != 0) held--;
    hold(step, held);
}

static void stop(tg_step *step) { until(step, TG_STOP); }
static void filter(tg_step *step) { until(step, TG_FILTERED); }

static void tell(tg_step *step) {
    if (step->is_last) tg_let_through(step, tg_str(((answer *)step->state)->told));
}

static void logged(tg_step *step) {
    if (step->is_last) tg_log(TG_DEBUG, "its text ends");
    pass(step);
}

static void fail(tg_step *step) {
    if (tg_equals(step->text, "bad")) tg_fail_lanes(step, TG_PERMANENT, "asked-for", "the text asks for it");
    else pass(step);
}

static void throw_boom(tg_step *step) {
    (void)step;
    tg_panic("boom");
}

static const struct {
    const char *name;
    void (*step)(tg_step *step);
} steps[] = {
    {"upper", upper}, {"hold", hold_all}, {"tail", tail},   {"silent", silent}, {"stop", stop},
    {"filter", filter}, {"lane", tell},   {"log", logged}, {"fail", fail},     {"throw", throw_boom},
};

static char *told_of(const tg_lane *lane) {
    static const char *const KINDS[] = {"content", "reasoning", "arguments"};
    tg_writer text = {0};
    tg_write_format(&text, "%.*s|%.*s|%u|%s", TG_SHOW(lane->identity), TG_SHOW(lane->model), lane->choice,
                    KINDS[lane->kind]);
    if (lane->kind == TG_ARGUMENTS) tg_write_format(&text, " %u", lane->call);
    for (uint32_t at = 0; at < lane->attribute_count; at++) {
        const tg_pair *pair = &lane->attributes[at];
        tg_write_format(&text, "|%.*s=%.*s", TG_SHOW(pair->name), TG_SHOW(pair->value));
    }
    tg_bytes value = tg_lane_attribute(lane, "a");
    tg_write_format(&text, "|last a=%.*s", TG_SHOW(value));
    tg_bytes written = tg_written(&text);
    char *told = (char *)malloc(written.length + 1);
    if (!told) tg_panic("there is no memory left");
    memcpy(told, written.at, written.length);
    told[written.length] = '\0';
    return told;
}

static bool open_lane(const tg_lane *lane, void *state) {
    answer *opened = (answer *)state;
    opened->step = pass;
    for (size_t one = 0; one < sizeof steps / sizeof *steps; one++) {
        if (tg_equals(lane->model, steps[one].name)) opened->step = steps[one].step;
    }
    if (opened->step == tell) opened->told = told_of(lane);
    if (opened->step == logged) tg_log(TG_INFO, "a lane opens");
    if (tg_equals(lane->model, "refuse")) return tg_refuse(TG_PERMANENT, "no-lane", "the lane asks for it");
    if (tg_equals(lane->model, "refuse-transient")) return tg_refuse(TG_TRANSIENT, "no-lane", "the lane asks for it");
    return true;
}

static void step(tg_step *step) { ((answer *)step->state)->step(step); }

static void close_lane(void *state) { free(((answer *)state)->told); }

TG_TOKENS(.state = sizeof(answer), .open = open_lane, .step = step, .close = close_lane);
