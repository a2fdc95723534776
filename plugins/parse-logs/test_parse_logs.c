// Tests of the operator on this machine: the cases, and lines that are cut and changed everywhere.

#include "tidegate/tg_harness.h"

#define LINE                                                                                                           \
    "83.149.9.216 - frank [17/May/2015:10:05:03 +0000] \"GET /search?q=\\\"a\\\" HTTP/1.1\" 200 203023 "               \
    "\"http://example.com/\" \"Mozilla/5.0 (X11; \\xc3\\xa4)\""

static tg_test_action action_of(const void *bytes, size_t length) {
    tg_test_record record = {.value = tg_bytes_of(bytes, length)};
    return tg_test_run_one(record).action;
}

// Every line that is cut is read or refused, and only one that is cut within its agent is read.
static void a_cut_line_is_read_only_within_its_last_field(void) {
    const char *agent = strstr(LINE, "\"Mozilla");
    TG_EXPECT(tg_test_start("{\"format\": \"combined\"}"));
    for (size_t length = 0; length <= strlen(LINE); length++) {
        bool is_read = action_of(LINE, length) == TG_REPLACED;
        TG_EXPECT(is_read == (length > strlen(LINE) - strlen(agent)));
    }
}

// Whatever a byte becomes, the answer is one that the host takes.
static void any_byte_can_stand_anywhere(void) {
    TG_EXPECT(tg_test_start("{}"));
    for (size_t at = 0; at < strlen(LINE); at++) {
        for (int byte = 0; byte < 256; byte++) {
            char line[] = LINE;
            line[at] = (char)byte;
            tg_test_action action = action_of(line, strlen(LINE));
            if (action != TG_REPLACED && action != TG_DEAD_LETTERED) TG_EXPECT(!"replaced or a dead letter");
        }
    }
    TG_EXPECT(action_of(LINE, strlen(LINE)) == TG_REPLACED);
}

int main(void) {
    tg_test_cases("cases/*.json");
    a_cut_line_is_read_only_within_its_last_field();
    any_byte_can_stand_anywhere();
    return tg_test_end();
}
