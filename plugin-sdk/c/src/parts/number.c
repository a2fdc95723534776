// Numbers as text: the fewest digits that are read as the same number.

#include <stdlib.h>

#include "inside.h"

enum { MOST_DIGITS = 17 };

// The decimal exponent of a positive number, and the number as one from 1 to 10 in extended precision.
static int scaled(double number, long double *fraction) {
    long double value = number;
    int exponent = 0;
    for (int step = 256; step != 0; step /= 2) {
        long double power = 1;
        for (int n = 0; n < step; n++) power *= 10;
        if (value >= power) {
            value /= power;
            exponent += step;
        } else if (value * power < 10) {
            value *= power;
            exponent -= step;
        }
    }
    *fraction = value;
    return exponent;
}

// The digits of a whole number, without zeros at the end, and what they are worth: 0.DIGITS x 10^point.
static int digits_of(uint64_t whole, char *digits) {
    char text[24];
    int length = 0, at = 0;
    for (; whole != 0; whole /= 10) text[length++] = (char)('0' + whole % 10);
    while (length > 0) digits[at++] = text[--length];
    return at;
}

// Writes `0.DIGITS x 10^point` as programs write numbers.
static size_t written(char *to, const char *digits, int count, int point) {
    char *begin = to;
    while (count > 1 && digits[count - 1] == '0') count--;
    if (point > 21 || point < -5) {
        *to++ = digits[0];
        if (count > 1) {
            *to++ = '.';
            for (int n = 1; n < count; n++) *to++ = digits[n];
        }
        int exponent = point - 1;
        *to++ = 'e';
        *to++ = exponent < 0 ? '-' : '+';
        if (exponent < 0) exponent = -exponent;
        if (exponent >= 100) *to++ = (char)('0' + exponent / 100);
        if (exponent >= 10) *to++ = (char)('0' + exponent / 10 % 10);
        *to++ = (char)('0' + exponent % 10);
        return (size_t)(to - begin);
    }
    if (point <= 0) {
        *to++ = '0';
        *to++ = '.';
        for (int n = point; n < 0; n++) *to++ = '0';
    }
    for (int n = 0; n < count || n < point; n++) {
        if (n == point && point > 0) *to++ = '.';
        *to++ = n < count ? digits[n] : '0';
    }
    return (size_t)(to - begin);
}

void tg_write_number(tg_writer *writer, double number) {
    if (number != number || number - number != 0) {
        // JSON has neither infinities nor what is no number.
        tg_write_text(writer, "null");
        return;
    }
    if (number < 0) {
        tg_write_text(writer, "-");
        number = -number;
    }
    if (number == 0) {
        tg_write_text(writer, "0");
        return;
    }
    long double fraction;
    int exponent = scaled(number, &fraction);
    char digits[24], text[80];
    size_t length = 0;
    uint64_t power = 1;
    for (int count = 1; count <= MOST_DIGITS; count++, power *= 10) {
        uint64_t whole = (uint64_t)(fraction * (long double)power + 0.5L);
        // With all its digits the last may be wrong by what the scaling lost.
        int reach = count == MOST_DIGITS ? 8 : 0;
        for (int step = 0; step <= 2 * reach; step++) {
            uint64_t tried = whole + (uint64_t)(int64_t)((step % 2 ? 1 : -1) * ((step + 1) / 2));
            int found = digits_of(tried, digits);
            length = written(text, digits, found, exponent + 1 + (found - count));
            text[length] = '\0';
            if (strtod(text, NULL) == number) {
                tg_write(writer, tg_bytes_of(text, length));
                return;
            }
        }
    }
    tg_write(writer, tg_bytes_of(text, length));
}
