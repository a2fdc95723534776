// Numbers with a fraction in formats: all their digits, exactly, and then as many as are asked for.

#include "inside.h"

// The most digits there are: 309 before the point; behind it 1,074, of which the last 767 can be other than 0.
enum { REAL_DIGITS = 1400, WHOLE_WORDS = 36, FRACTION_WORDS = 36 };

// 0.DIGITS x 10^point, without zeros at its ends; no digits for 0.
typedef struct decimal {
    char digits[REAL_DIGITS];
    int count, point;
} decimal;

// Digits of the whole part, which is `mantissa` doubled `times` times.
static void add_whole(decimal *to, uint64_t mantissa, int times) {
    enum { BASE = 1000000000 };
    uint32_t words[WHOLE_WORDS];
    int count = 0;
    for (; mantissa != 0; mantissa /= BASE) words[count++] = (uint32_t)(mantissa % BASE);
    for (; times > 0; times--) {
        uint32_t carry = 0;
        for (int word = 0; word < count; word++) {
            uint32_t doubled = words[word] * 2 + carry;
            carry = doubled >= BASE;
            words[word] = doubled - (carry ? BASE : 0);
        }
        if (carry) words[count++] = carry;
    }
    while (count-- > 0) {
        uint32_t word = words[count];
        for (uint32_t unit = BASE / 10; unit != 0; unit /= 10) {
            char digit = (char)('0' + word / unit % 10);
            if (to->count != 0 || digit != '0') to->digits[to->count++] = digit;
        }
    }
    to->point = to->count;
}

// Digits of the fraction, which is `mantissa` halved `times` times.
static void add_fraction(decimal *to, uint64_t mantissa, int times) {
    uint32_t words[FRACTION_WORDS] = {(uint32_t)mantissa, (uint32_t)(mantissa >> 32)};
    int last = times / 32, shift = times % 32;
    for (int first = 0;;) {
        // What is left becomes 0 from its end on.
        while (first < last && words[first] == 0) first++;
        if (first == last && words[last] == 0) return;
        uint64_t carry = 0;
        for (int word = first; word <= last; word++) {
            carry += (uint64_t)words[word] * 10;
            words[word] = (uint32_t)carry;
            carry >>= 32;
        }
        uint32_t digit = (uint32_t)((carry << 32 | words[last]) >> shift);
        words[last] &= (UINT32_C(1) << shift) - 1;
        if (to->count != 0 || digit != 0) {
            to->digits[to->count++] = (char)('0' + digit);
        } else {
            to->point--;
        }
    }
}

// A number that is finite and not negative.
static void decimal_of(double number, decimal *to) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    int exponent = (int)(bits >> 52 & 2047);
    uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | (uint64_t)(exponent != 0) << 52;
    exponent = (exponent ? exponent : 1) - 1075;
    to->count = to->point = 0;
    if (exponent >= 0) {
        add_whole(to, mantissa, exponent);
    } else {
        uint64_t whole = exponent > -64 ? mantissa >> -exponent : 0;
        add_whole(to, whole, 0);
        add_fraction(to, exponent > -64 ? mantissa & ((UINT64_C(1) << -exponent) - 1) : mantissa, -exponent);
    }
    while (to->count != 0 && to->digits[to->count - 1] == '0') to->count--;
    if (to->count == 0) to->point = 1;
}

// Keeps so many digits, of a half the even one.
static void round_to(decimal *to, int64_t keep) {
    if (keep >= to->count) return;
    bool is_up = keep >= 0 && to->digits[keep] >= '5';
    if (is_up && to->digits[keep] == '5' && keep + 1 == to->count) {
        is_up = keep > 0 && (to->digits[keep - 1] - '0') % 2 != 0;
    }
    to->count = keep > 0 ? (int)keep : 0;
    // Zeros at the end are no digits.
    while (to->count != 0 && to->digits[to->count - 1] == (is_up ? '9' : '0')) to->count--;
    if (!is_up) return;
    if (to->count != 0) {
        to->digits[to->count - 1]++;
    } else {
        to->digits[to->count++] = '1';
        to->point++;
    }
}

static void write_digits(tg_writer *writer, const decimal *of, int64_t begin, int64_t end) {
    for (; begin < end; begin++) {
        char digit = begin >= 0 && begin < of->count ? of->digits[begin] : '0';
        tg_write(writer, tg_bytes_of(&digit, 1));
    }
}

void tg_write_real(tg_writer *writer, double number, char letter, int64_t precision, bool is_alternative) {
    char kind = letter | 32;
    bool is_upper = kind != letter;
    if (number - number != 0) {
        tg_write_text(writer, number != number ? (is_upper ? "NAN" : "nan") : (is_upper ? "INF" : "inf"));
        return;
    }
    decimal digits;
    decimal_of(number, &digits);
    if (precision < 0) precision = 6;
    bool is_short = kind == 'g';
    if (is_short) {
        if (precision == 0) precision = 1;
        round_to(&digits, precision);
        kind = digits.point > precision || digits.point < -3 ? 'e' : 'f';
        precision -= kind == 'e' ? 1 : digits.point;
        // Without its zeros at the end.
        int64_t needed = digits.count - (kind == 'e' ? 1 : digits.point);
        if (!is_alternative && precision > needed) precision = needed > 0 ? needed : 0;
    }
    round_to(&digits, kind == 'e' ? precision + 1 : digits.point + precision);
    int64_t point = kind == 'e' ? 1 : digits.point;
    write_digits(writer, &digits, point > 0 ? 0 : point - 1, point);
    if (precision > 0 || is_alternative) tg_write_text(writer, ".");
    write_digits(writer, &digits, point, point + precision);
    if (kind != 'e') return;
    int exponent = digits.count ? digits.point - 1 : 0;
    tg_write_text(writer, is_upper ? "E" : "e");
    tg_write_format(writer, exponent < 0 ? "-%02d" : "+%02d", exponent < 0 ? -exponent : exponent);
}
