// UTF-8, formats and numbers.

#include <float.h>
#include <stdio.h>
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
    TG_EXPECT_TEXT(tg_format("%+d %+d % d %.3d %.0d|%5.2d|%#x %#X %#x %o %#o", 5, -5, 5, 7, 0, 3, 255, 255, 0, 8, 8),
                   "+5 -5  5 007 |   03|0xff 0XFF 0 10 010");
    TG_EXPECT_TEXT(tg_format("%-*d|%*d|%.*s|", 4, 1, -4, 2, -1, "all"), "1   |2   |all|");
    TG_EXPECT_TEXT(tg_format("%f %.2f %.0f %.0f %e %g %g", 1.5, 2.675, 0.5, 1.5, 12345.678, 0.0001, 1e20),
                   "1.500000 2.67 0 2 1.234568e+04 0.0001 1e+20");
}

// Whatever the format and the number, it is what the C library of this machine writes.
static void numbers_are_written_as_printf_does(void) {
    static const char *const formats[] = {"%f",      "%.0f",    "%.3f", "%+.17f", "%e",    "%.0e",  "%#.0e",
                                          "%.20E",   "%g",      "%.0g", "%.3g",   "%#g",   "%.17g", "%G",
                                          "%012.4f", "%-12.2f", "% F",  "%+e",    "%#.0f", "%.40g", "%08g"};
    static const double some[] = {0,    -0.0, 1,    0.5,  1.5,  2.5,  0.05,      9.995,  99999.95, 999999.5,
                                  1e15, 1e16, 1e21, 1e22, 1e-5, 1e-4, 123456789, 5e-324, DBL_MAX,  DBL_MIN};
    uint64_t bits = 1;
    for (size_t at = 0; at < 3000; at++) {
        double number;
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        // Half of them of a usual size.
        uint64_t used = at % 2 ? bits : (bits & ~(UINT64_C(0x7ff) << 52)) | (UINT64_C(1000) + (bits >> 40) % 60) << 52;
        memcpy(&number, &used, sizeof number);
        if (at < sizeof some / sizeof *some) number = some[at];
        const char *format = formats[(at + at / 20) % (sizeof formats / sizeof *formats)];
        char expected[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        if (number - number != 0 && format[1] == '0') continue;
        // The sign of what is no number is not the same everywhere.
        if (number != number) continue;
        snprintf(expected, sizeof expected, format, number);
        TG_EXPECT_TEXT(tg_format(format, number), expected);
#pragma GCC diagnostic pop
        tg_arena_clear(&tg_scratch);
    }
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
    numbers_are_written_as_printf_does();
    numbers_have_the_fewest_digits();
}
