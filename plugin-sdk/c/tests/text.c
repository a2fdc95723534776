// UTF-8, formats and numbers.

#include <float.h>
#include <stdlib.h>

#include "sdk_tests.h"

static void text_is_what_the_standard_says(void) {
    static const char *const right[] = {"",
                                        "a",
                                        "\x7f",
                                        "\xc2\x80",
                                        "\xdf\xbf",
                                        "\xe0\xa0\x80",
                                        "\xed\x9f\xbf",
                                        "\xee\x80\x80",
                                        "\xef\xbf\xbf",
                                        "\xf0\x90\x80\x80",
                                        "\xf4\x8f\xbf\xbf"};
    static const char *const wrong[] = {"\x80",         "\xc0\x80",         "\xc1\xbf",         "\xc2",
                                        "\xe0\x9f\xbf", "\xed\xa0\x80",     "\xed\xbf\xbf",     "\xe2\x82",
                                        "\xff",         "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"};
    for (size_t at = 0; at < sizeof right / sizeof *right; at++) TG_EXPECT(tg_is_utf8(tg_str(right[at])));
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        // Behind enough text that it is not the first eight bytes.
        TG_EXPECT(!tg_is_utf8(tg_str(wrong[at])));
        TG_EXPECT(!tg_is_utf8(tg_format("eight bytes %s and more", wrong[at])));
    }
    TG_EXPECT(!tg_is_utf8(tg_null()));
    tg_writer json = {0};
    tg_write_json(&json, tg_str("\"\\\b\f\n\r\t\x01\x1f \xc3\xa4 \xf0\x9f\x98\x80 \xe2\x82 \xff"));
    TG_EXPECT_TEXT(tg_written(&json),
                   "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f \xc3\xa4 \xf0\x9f\x98\x80 \xef\xbf\xbd \xef\xbf\xbd\"");
}

static void formats_are_those_of_printf(void) {
    TG_EXPECT_TEXT(tg_format("%d %i %u %x %X %%", -5, 0, 7u, 255u, 255u), "-5 0 7 ff FF %");
    TG_EXPECT_TEXT(tg_format("%lld %llu", (long long)INT64_MIN, (unsigned long long)UINT64_MAX),
                   "-9223372036854775808 18446744073709551615");
    TG_EXPECT_TEXT(tg_format("%zu %ld %hd %hhu", (size_t)1, -2L, (short)3, (unsigned char)4), "1 -2 3 4");
    TG_EXPECT_TEXT(tg_format("[%5d|%-5d|%05d|%3s|%-3s|%.2s|%*d]", 42, 42, -42, "a", "b", "long", 4, 7),
                   "[   42|42   |-0042|  a|b  |lo|   7]");
    TG_EXPECT_TEXT(tg_format("%.*s%c", TG_SHOW(tg_bytes_of("not all", 3)), '!'), "not!");
}

static void is_shortest(double number, const char *expected) {
    tg_writer writer = {0};
    tg_write_number(&writer, number);
    TG_EXPECT_TEXT(tg_written(&writer), expected);
}

static void numbers_have_the_fewest_digits(void) {
    is_shortest(0, "0");
    is_shortest(0.1, "0.1");
    is_shortest(-2.5, "-2.5");
    is_shortest(1000000, "1000000");
    is_shortest(0.3, "0.3");
    is_shortest(0.1 + 0.2, "0.30000000000000004");
    is_shortest(1.0 / 3, "0.3333333333333333");
    is_shortest(123456789012345680.0, "123456789012345680");
    is_shortest(1e21, "1e+21");
    is_shortest(5e-324, "5e-324");
    is_shortest(DBL_MAX, "1.7976931348623157e+308");
    is_shortest(9007199254740993.0, "9007199254740992");
    is_shortest(0.000001, "0.000001");
    is_shortest(1e-7, "1e-7");
    is_shortest(9.5, "9.5");
    // What is written is read as the same.
    uint64_t bits = 1;
    for (int at = 0; at < 20000; at++) {
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double number;
        memcpy(&number, &bits, sizeof number);
        if (number - number != 0) continue;
        tg_writer writer = {0};
        tg_write_number(&writer, number);
        tg_write(&writer, tg_bytes_of("", 1));
        if (strtod((const char *)writer.at, NULL) != number) {
            TG_EXPECT_TEXT(tg_written(&writer), "the same number");
        }
        tg_arena_clear(&tg_scratch);
    }
}

void test_text(void) {
    text_is_what_the_standard_says();
    formats_are_those_of_printf();
    numbers_have_the_fewest_digits();
}
