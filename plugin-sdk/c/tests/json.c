// JSON: what is one, what is none and where, and what is in it.

#include <stdlib.h>

#include "sdk_tests.h"

static void is_json(const char *text) {
    tg_json json;
    uint32_t at = 0;
    const char *wrong = tg_json_read(tg_str(text), &json, &at);
    if (wrong) tg_test_failed("%s: %s at byte %u", text, wrong, at);
    tg_test_ran();
}

static void is_none(const char *text, uint32_t expected_at) {
    tg_json json;
    uint32_t at = UINT32_MAX;
    const char *wrong = tg_json_read(tg_str(text), &json, &at);
    if (!wrong || at != expected_at) tg_test_failed("%s: %s at byte %u", text, wrong ? wrong : "it is JSON", at);
    tg_test_ran();
}

static tg_json read(const char *text) {
    tg_json json;
    uint32_t at;
    TG_EXPECT(!tg_json_read(tg_str(text), &json, &at));
    return json;
}

static void texts_are_held_against_the_standard(void) {
    static const char *const right[] = {"null",
                                        " true ",
                                        "false",
                                        "0",
                                        "-0",
                                        "1.5e+3",
                                        "1E5",
                                        "\"\"",
                                        "[]",
                                        "{}",
                                        "[ ]",
                                        "[1,[2,{\"a\":[]}],{}]",
                                        "{\"a\":1,\"a\":2}",
                                        "\"\\ud83d\\ude00\"",
                                        "\"\\u00e4\\/\""};
    for (size_t at = 0; at < sizeof right / sizeof *right; at++) is_json(right[at]);
    is_none("", 0);
    is_none("nul", 0);
    is_none("01", 1);
    is_none("1.", 2);
    is_none(".5", 0);
    is_none("+1", 0);
    is_none("1e", 2);
    is_none("[1,]", 3);
    is_none("[1 2]", 3);
    is_none("{\"a\" 1}", 5);
    is_none("{a:1}", 1);
    is_none("{\"a\":1,}", 7);
    is_none("[1}", 2);
    is_none("\"a", 2);
    is_none("\"\t\"", 1);
    is_none("\"\\x\"", 2);
    is_none("\"\\ud83d\"", 2);
    is_none("\"\\ude00\"", 2);
    is_none("1 1", 2);
    is_none("\"\xff\"", 1);
    is_none("NaN", 0);
    char deep[260] = {0};
    memset(deep, '[', 128);
    memset(deep + 128, ']', 128);
    is_json(deep);
    memset(deep, '[', 129);
    memset(deep + 129, ']', 129);
    is_none(deep, 128);
}

static void what_is_in_it_is_found(void) {
    tg_json json = read(
        " {\"a\" : [ 1 , \"x\\\"]\\u00e4\\ud83d\\ude00\\n\" , { \"b\":{} } , -2.5 ] , \"\\u0061b\":true,\"a\":null } ");
    tg_bytes text = tg_null();
    bool boolean = false;
    double number;
    int64_t whole;
    TG_EXPECT(tg_json_kind_of(json) == TG_JSON_OBJECT);
    TG_EXPECT(tg_json_kind_of(tg_json_member(json, "a")) == TG_JSON_NULL);
    TG_EXPECT(tg_json_boolean(tg_json_member(json, "ab"), &boolean) && boolean);
    TG_EXPECT(tg_json_kind_of(tg_json_member(json, "c")) == TG_JSON_NONE);
    tg_json_items items = tg_json_items_of(json);
    tg_json name, list = {NULL, NULL}, one;
    TG_EXPECT(tg_json_next(&items, &name, &list) && tg_json_string(name, &text));
    TG_EXPECT_TEXT(text, "a");
    items = tg_json_items_of(list);
    TG_EXPECT(tg_json_next(&items, NULL, &one) && tg_json_integer(one, &whole) && whole == 1);
    TG_EXPECT(tg_json_next(&items, NULL, &one) && tg_json_string(one, &text));
    TG_EXPECT_TEXT(text, "x\"]\xc3\xa4\xf0\x9f\x98\x80\n");
    TG_EXPECT(tg_json_next(&items, NULL, &one) && !tg_json_string(one, &text));
    TG_EXPECT_TEXT(tg_json_source(one), "{ \"b\":{} }");
    TG_EXPECT(tg_json_next(&items, NULL, &one) && tg_json_number(one, &number) && number == -2.5);
    TG_EXPECT(!tg_json_integer(one, &whole) && !tg_json_next(&items, NULL, &one));
    TG_EXPECT(!tg_json_next(&(tg_json_items){NULL, NULL, false}, NULL, &one));
}

static void whole_numbers_have_64_bits(void) {
    int64_t whole;
    TG_EXPECT(tg_json_integer(read("9223372036854775807"), &whole) && whole == INT64_MAX);
    TG_EXPECT(tg_json_integer(read("-9223372036854775808"), &whole) && whole == INT64_MIN);
    TG_EXPECT(!tg_json_integer(read("9223372036854775808"), &whole));
    TG_EXPECT(!tg_json_integer(read("-9223372036854775809"), &whole));
    TG_EXPECT(tg_json_integer(read("-0"), &whole) && whole == 0);
    TG_EXPECT(tg_json_integer(read("1e3"), &whole) && whole == 1000);
    TG_EXPECT(tg_json_integer(read("5.0"), &whole) && whole == 5);
    TG_EXPECT(!tg_json_integer(read("5.5"), &whole) && !tg_json_integer(read("1e300"), &whole));
    TG_EXPECT(tg_json_integer(read("1e18"), &whole) && whole == INT64_C(1000000000000000000));
    TG_EXPECT(tg_json_integer(read("1234567890123456789.0"), &whole) && whole == INT64_C(1234567890123456789));
    TG_EXPECT(tg_json_integer(read("-9223372036854775808.00"), &whole) && whole == INT64_MIN);
    TG_EXPECT(tg_json_integer(read("922337203685477580.7E+1"), &whole) && whole == INT64_MAX);
    TG_EXPECT(tg_json_integer(read("1200e-2"), &whole) && whole == 12);
    TG_EXPECT(tg_json_integer(read("0.000e99999999999999999999"), &whole) && whole == 0);
    TG_EXPECT(!tg_json_integer(read("9223372036854775808.0"), &whole) && !tg_json_integer(read("1e19"), &whole));
    TG_EXPECT(!tg_json_integer(read("0.99999999999999999999"), &whole) && !tg_json_integer(read("1e-400"), &whole));
    TG_EXPECT(!tg_json_integer(read("1e99999999999999999999"), &whole) && !tg_json_integer(read("12e-1"), &whole));
    double number;
    TG_EXPECT(!tg_json_number(read("1e999"), &number));
}

// Looks at everything in a value: what was checked is walked over without a look at its end.
static unsigned walked(tg_json json) {
    tg_json_items items = tg_json_items_of(json);
    tg_json name = {NULL, NULL}, value;
    tg_bytes text;
    double number;
    unsigned count = 1 + tg_json_string(json, &text) + tg_json_number(json, &number);
    while (tg_json_next(&items, &name, &value)) count += walked(value) + tg_json_string(name, &text);
    return count;
}

static void whatever_stands_there_nothing_beyond_it_is_read(void) {
    static const char text[] = "{\"a\\u00e4\":[1,-2.5e3,\"\\ud83d\\ude00\",{}],\"b\":{\"c\":[true,null,false]}}";
    unsigned read = 0;
    for (size_t length = 0; length < sizeof text; length++) {
        // In memory of exactly its length, so that a sanitizer sees what lies beyond.
        uint8_t *copy = malloc(length ? length : 1);
        if (!copy) tg_end("there is no memory left");
        memcpy(copy, text, length);
        for (size_t at = 0; at < length; at++) {
            for (unsigned byte = 0; byte < 256; byte += length + 1 == sizeof text ? 1 : 11) {
                tg_json json;
                uint32_t wrong_at;
                copy[at] = (uint8_t)byte;
                if (!tg_json_read(tg_bytes_of(copy, length), &json, &wrong_at)) read += walked(json) != 0;
            }
            copy[at] = (uint8_t)text[at];
        }
        free(copy);
        tg_arena_clear(&tg_scratch);
    }
    TG_EXPECT(read > 100);
}

void test_json(void) {
    texts_are_held_against_the_standard();
    what_is_in_it_is_found();
    whole_numbers_have_64_bits();
    whatever_stands_there_nothing_beyond_it_is_read();
    tg_arena_clear(&tg_scratch);
}
