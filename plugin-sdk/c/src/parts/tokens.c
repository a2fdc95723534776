// Lanes of answers that are open, and what goes on of each piece of their text: the host's calls and the harness both come
// here.

#include <stdlib.h>

#include "inside.h"

typedef struct lane {
    uint64_t number;
    // What is held back, and behind it the next text.
    tg_buffer text;
    // The first bytes of a character that the operator has cut: they wait for the others.
    uint8_t half[3];
    uint8_t half_length;
    void *state;
} lane;

static struct {
    lane *at;
    uint32_t count, room;
} lanes;

// What the running step lets through, and how much of its text it holds back.
static struct {
    tg_buffer *out;
    uint32_t held;
    tg_ending end;
} stepping;

static void *space(void *old, size_t size) {
    void *at = realloc(old, size);
    if (!at) tg_end("there is no memory left for a lane");
    return at;
}

static lane *find(uint64_t number) {
    for (uint32_t at = 0; at < lanes.count; at++) {
        if (lanes.at[at].number == number) return &lanes.at[at];
    }
    return NULL;
}

static void forget(lane *gone) {
    free(gone->text.at);
    free(gone->state);
    *gone = lanes.at[--lanes.count];
}

void tg_lanes_forget(const tg_tokens *with) {
    while (lanes.count != 0) tg_lane_close(with, lanes.at->number);
}

// Begins and ends a call of the operator's. What a format cannot write is a failure.
static bool begin(const char *call) {
    run->failure.code = NULL;
    run->refused = tg_null();
    if (run->is_started) return true;
    return tg_refuse(TG_PERMANENT, "not-started", "`%s` was called before `init`", call);
}

static bool end(void) {
    if (run->refused.at) tg_refuse(TG_PERMANENT, "refused", "%.*s", TG_SHOW(run->refused));
    return run->failure.code == NULL;
}

bool tg_lane_open(const tg_tokens *with, uint64_t number, const tg_lane *opened) {
    tg_arena_clear(&tg_scratch);
    if (!begin("open")) return false;
    if (!with->step) return tg_refuse(TG_PERMANENT, "no-step", "TG_TOKENS has no .step");
    size_t size = with->state == 0 ? 1 : with->state;
    void *state = memset(space(NULL, size), 0, size);
    bool is_open = !with->open || with->open(opened, state);
    if (!end()) is_open = false;
    else if (!is_open) tg_refuse(TG_PERMANENT, "refused", "the operator refuses the lane");
    if (!is_open) {
        if (with->close) with->close(state);
        free(state);
        return false;
    }
    if (lanes.count == lanes.room) {
        lanes.room = lanes.room ? 2 * lanes.room : 8;
        lanes.at = (lane *)space(lanes.at, lanes.room * sizeof *lanes.at);
    }
    lane *made = &lanes.at[lanes.count++];
    memset(made, 0, sizeof *made);
    made->number = number;
    made->state = state;
    return true;
}

void tg_let_through(tg_step *step, tg_bytes text) {
    (void)step;
    if (text.length != 0) tg_copy(tg_buffer_more(stepping.out, text.length), text);
}

void tg_hold_back(tg_step *step, uint32_t bytes) {
    stepping.held = bytes < step->text.length ? bytes : step->text.length;
}

void tg_end_answer(tg_step *step, tg_ending how) {
    (void)step;
    stepping.end = how;
}

void tg_fail_lanes(tg_step *step, tg_class failure, const char *code, const char *format, ...) {
    (void)step;
    va_list arguments;
    va_start(arguments, format);
    tg_bytes why = tg_formatted(format, arguments);
    va_end(arguments);
    tg_refuse(failure, code, "%.*s", TG_SHOW(why));
}

// How many bytes at the end begin a character that is not whole.
static uint8_t cut_character(tg_bytes text) {
    for (uint8_t n = 1; n < 4 && n <= text.length; n++) {
        uint8_t byte = text.at[text.length - n];
        if ((byte & 0xc0) == 0x80) continue;
        int whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
        return byte <= 0xf4 && whole > n ? n : 0;
    }
    return 0;
}

// Makes UTF-8 of what was let through from here on: the host takes no other.
static void make_whole(lane *of, size_t from, bool is_last) {
    tg_buffer *out = stepping.out;
    tg_bytes text = tg_bytes_of(out->at + from, out->length - from);
    of->half_length = is_last ? 0 : cut_character(text);
    text.length -= of->half_length;
    memcpy(of->half, text.at + text.length, of->half_length);
    out->length -= of->half_length;
    if (text.length == 0 || tg_is_utf8(text)) return;
    text = tg_as_text(text);
    out->length = from;
    tg_copy(tg_buffer_more(out, text.length), text);
}

bool tg_lane_step(const tg_tokens *with, uint64_t number, tg_bytes text, bool is_last, tg_buffer *out,
                  tg_ending *ending) {
    if (tg_scratch.used != 0) tg_arena_clear(&tg_scratch);
    if (!begin("step")) return false;
    lane *of = find(number);
    if (!of) return tg_refuse(TG_PERMANENT, "unknown-lane", "lane %llu is not open", (unsigned long long)number);
    if (text.length != 0) tg_copy(tg_buffer_more(&of->text, text.length), text);
    // Even where nothing is copied there is a place to look at.
    size_t from = out->length;
    tg_copy(tg_buffer_more(out, of->half_length), tg_bytes_of(of->half, of->half_length));
    stepping.out = out;
    stepping.held = 0;
    stepping.end = TG_NO_END;
    tg_step step = {tg_bytes_of(of->text.at ? (const void *)of->text.at : (const void *)"", of->text.length), is_last,
                    of->state};
    with->step(&step);
    if (!end()) return false;
    if (stepping.held != of->text.length) {
        memmove(of->text.at, of->text.at + of->text.length - stepping.held, stepping.held);
    }
    of->text.length = stepping.held;
    *ending = stepping.end;
    if (out->length != from) make_whole(of, from, is_last || stepping.end != TG_NO_END);
    return true;
}

void tg_lane_close(const tg_tokens *with, uint64_t number) {
    lane *gone = find(number);
    if (!gone) return;
    if (with->close) with->close(gone->state);
    forget(gone);
}

tg_bytes tg_lane_attribute(const tg_lane *lane, const char *name) {
    for (uint32_t at = lane->attribute_count; at != 0; at--) {
        if (tg_equals(lane->attributes[at - 1].name, name)) return lane->attributes[at - 1].value;
    }
    return tg_null();
}
