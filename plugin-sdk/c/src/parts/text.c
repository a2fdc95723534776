// Text: UTF-8, formats, numbers, JSON strings.

#include <stdlib.h>

#include "inside.h"

// How many bytes of a UTF-8 sequence stand here, and whether it is whole. Of what is none the first byte counts, as
// everywhere where U+FFFD stands for what is not UTF-8 (The Unicode Standard, section 3.9: maximal subparts).
static size_t sequence(const uint8_t *at, size_t left, bool *is_whole) {
    uint8_t first = at[0];
    *is_whole = first < 0x80;
    if (first < 0xc2 || first > 0xf4) return 1;
    // Neither longer than need be, nor a surrogate, nor beyond the last character.
    uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2, n = 1;
    for (; n < length && n < left && at[n] >= least && at[n] <= most; n++) {
        least = 0x80;
        most = 0xbf;
    }
    *is_whole = n == length;
    return n;
}

uint32_t tg_utf8_until(tg_bytes bytes) {
    uint32_t at = 0;
    while (at < bytes.length) {
        // Most text is ASCII: eight bytes at a time.
        if (bytes.length - at >= 8 && !(tg_read_64(bytes.at + at) & UINT64_C(0x8080808080808080))) {
            at += 8;
            continue;
        }
        bool is_whole;
        size_t length = sequence(bytes.at + at, bytes.length - at, &is_whole);
        if (!is_whole) return at;
        at += (uint32_t)length;
    }
    return at;
}

bool tg_is_utf8(tg_bytes bytes) { return bytes.at && tg_utf8_until(bytes) == bytes.length; }

// Writes runs of UTF-8, and U+FFFD for what stands between them.
static void as_text(tg_writer *writer, tg_bytes bytes) {
    while (bytes.length != 0) {
        uint32_t until = tg_utf8_until(bytes);
        tg_write(writer, tg_bytes_of(bytes.at, until));
        if (until == bytes.length) return;
        bool is_whole;
        tg_write_text(writer, "\xef\xbf\xbd");
        until += (uint32_t)sequence(bytes.at + until, bytes.length - until, &is_whole);
        bytes = tg_bytes_of(bytes.at + until, bytes.length - until);
    }
}

tg_bytes tg_as_text(tg_bytes bytes) {
    if (bytes.length == 0 || tg_is_utf8(bytes)) return bytes;
    tg_writer writer = {NULL, 0, 0};
    as_text(&writer, bytes);
    return tg_written(&writer);
}

const char *tg_file_name(const char *path) {
    const char *name = path;
    for (; *path; path++) {
        if (*path == '/' || *path == '\\') name = path + 1;
    }
    return name;
}

// Room at the end of a writer.
static uint8_t *more(tg_writer *writer, size_t size) {
    if (writer->room - writer->length < size) {
        size_t room = tg_sum(writer->length, size);
        room = room < 512 ? 1024 : tg_sum(room, room);
        uint8_t *moved = (uint8_t *)tg_memory(room);
        if (writer->length) memcpy(moved, writer->at, writer->length);
        writer->at = moved;
        writer->room = room;
    }
    uint8_t *at = writer->at + writer->length;
    writer->length += size;
    return at;
}

void tg_write(tg_writer *writer, tg_bytes bytes) {
    if (bytes.length != 0) tg_copy(more(writer, bytes.length), bytes);
}

static const char DIGITS[] = "0123456789abcdef";

void tg_write_hex(tg_writer *writer, tg_bytes bytes) {
    uint8_t *to = more(writer, tg_sum(bytes.length, bytes.length));
    for (uint32_t n = 0; n < bytes.length; n++) {
        *to++ = (uint8_t)DIGITS[bytes.at[n] >> 4];
        *to++ = (uint8_t)DIGITS[bytes.at[n] & 15];
    }
}

// Where the next byte is that a JSON string cannot have as it is, or the end.
static uint32_t plain_until(tg_bytes text, uint32_t at) {
    const uint64_t each = UINT64_C(0x0101010101010101), high = each << 7;
    for (; at < text.length; at++) {
        // Eight bytes at a time: those below a number borrow from their highest bit when it is subtracted.
        while (text.length - at >= 8) {
            uint64_t word = tg_read_64(text.at + at), quote = word ^ each * '"', backslash = word ^ each * '\\';
            uint64_t found =
                ((word - each * 0x20) & ~word) | ((quote - each) & ~quote) | ((backslash - each) & ~backslash);
            if (found & high) break;
            at += 8;
        }
        if (at == text.length) break;
        uint8_t byte = text.at[at];
        if (byte < 0x20 || byte == '"' || byte == '\\') break;
    }
    return at;
}

void tg_write_json(tg_writer *writer, tg_bytes text) {
    static const char SHORT[] = "btn\0fr";
    text = tg_as_text(text);
    tg_write_text(writer, "\"");
    uint32_t begin = 0;
    for (uint32_t at = plain_until(text, 0); at < text.length; at = plain_until(text, at + 1)) {
        uint8_t byte = text.at[at];
        tg_write(writer, tg_bytes_of(text.at + begin, at - begin));
        begin = at + 1;
        uint8_t *to = more(writer, 2);
        to[0] = '\\';
        to[1] = byte;
        if (byte >= 0x20) continue;
        if (byte >= 8 && byte <= 13 && byte != 11) {
            to[1] = (uint8_t)SHORT[byte - 8];
            continue;
        }
        to[1] = 'u';
        tg_write_text(writer, "00");
        tg_write_hex(writer, tg_bytes_of(text.at + at, 1));
    }
    tg_write(writer, tg_bytes_of(text.at + begin, text.length - begin));
    tg_write_text(writer, "\"");
}

// The digits of a number before `end`; where they begin.
static char *digits(char *end, uint64_t number, unsigned base, bool is_upper) {
    do {
        char digit = DIGITS[number % base];
        *--end = is_upper && digit >= 'a' ? (char)(digit - 32) : digit;
        number /= base;
    } while (number != 0);
    return end;
}

// How a value of a format is written. A precision below 0 is none.
typedef struct manner {
    bool is_left, is_zero, is_plus, is_space, is_alternative;
    size_t width;
    int64_t precision;
    // The length modifier: 0 int, 1 long, 2 long long.
    int size;
} manner;

// What stands before a number, and its digits, with their width: how many characters they take at least.
static void padded(tg_writer *writer, const manner *how, const char *before, tg_bytes text, bool is_zero) {
    size_t length = tg_sum(strlen(before), text.length), gap = how->width > length ? how->width - length : 0;
    is_zero = is_zero && !how->is_left;
    if (!how->is_left && !is_zero && gap) memset(more(writer, gap), ' ', gap);
    tg_write_text(writer, before);
    if (is_zero && gap) memset(more(writer, gap), '0', gap);
    tg_write(writer, text);
    if (how->is_left && gap) memset(more(writer, gap), ' ', gap);
}

// What stands before a number with a sign.
static const char *sign_of(const manner *how, bool is_negative) {
    return is_negative ? "-" : how->is_plus ? "+" : how->is_space ? " " : "";
}

// One whole number of a format.
static void formatted_number(tg_writer *writer, char letter, const manner *how, va_list *arguments) {
    char text[24], *end = text + sizeof text, *begin;
    const char *before = "";
    uint64_t number;
    if (letter == 'd' || letter == 'i') {
        int64_t whole = how->size == 2   ? va_arg(*arguments, long long)
                        : how->size == 1 ? va_arg(*arguments, long)
                                         : va_arg(*arguments, int);
        number = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
        before = sign_of(how, whole < 0);
    } else {
        number = how->size == 2   ? va_arg(*arguments, unsigned long long)
                 : how->size == 1 ? va_arg(*arguments, unsigned long)
                                  : va_arg(*arguments, unsigned);
    }
    bool is_hexadecimal = letter == 'x' || letter == 'X';
    begin = digits(end, number, is_hexadecimal ? 16 : letter == 'o' ? 8 : 10, letter == 'X');
    if (how->is_alternative && is_hexadecimal && number != 0) before = letter == 'x' ? "0x" : "0X";
    if (how->is_alternative && letter == 'o' && *begin != '0') *--begin = '0';
    // A 0 with a precision of 0 has no digits.
    if (how->precision == 0 && number == 0 && !(how->is_alternative && letter == 'o')) begin = end;
    tg_bytes shown = tg_bytes_of(begin, (size_t)(end - begin));
    if (how->precision > (int64_t)shown.length) {
        tg_writer whole = {NULL, 0, 0};
        size_t zeros = (size_t)how->precision - shown.length;
        memset(more(&whole, zeros), '0', zeros);
        tg_write(&whole, shown);
        shown = tg_written(&whole);
    }
    padded(writer, how, before, shown, how->is_zero && how->precision < 0);
}

// One number with a fraction.
static void formatted_real(tg_writer *writer, char letter, const manner *how, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    bool is_negative = bits >> 63 != 0;
    tg_writer text = {NULL, 0, 0};
    tg_write_real(&text, is_negative ? -number : number, letter, how->precision, how->is_alternative);
    padded(writer, how, sign_of(how, is_negative), tg_written(&text), how->is_zero && number - number == 0);
}

// The number here, or the next argument for `*`, which may be negative.
static int64_t taken(const char **format, va_list *arguments) {
    int64_t number = 0;
    if (**format == '*') {
        ++*format;
        return va_arg(*arguments, int);
    }
    for (; **format >= '0' && **format <= '9'; ++*format) {
        if (number <= INT32_MAX) number = number * 10 + (**format - '0');
    }
    return number;
}

// What stands between a `%` and its letter.
static const char *read_manner(const char *format, manner *how, va_list *arguments) {
    for (;; format++) {
        if (*format == '-') how->is_left = true;
        else if (*format == '0') how->is_zero = true;
        else if (*format == '+') how->is_plus = true;
        else if (*format == ' ') how->is_space = true;
        else if (*format == '#') how->is_alternative = true;
        else break;
    }
    int64_t width = taken(&format, arguments);
    if (width < 0) how->is_left = true;
    how->width = (size_t)(width < 0 ? -width : width);
    if (*format == '.') {
        format++;
        how->precision = taken(&format, arguments);
    }
    for (; *format && strchr("hljzt", *format); format++) {
        if (*format == 'l') how->size++;
        if (*format == 'j') how->size = 2;
        if (*format == 'z' || *format == 't') how->size = sizeof(size_t) == sizeof(long) ? 1 : 2;
    }
    return format;
}

// What follows a `%`; NULL if it is nothing that is known.
static const char *formatted(tg_writer *writer, const char *format, va_list *arguments) {
    manner how = {.precision = -1};
    format = read_manner(format, &how, arguments);
    switch (*format) {
    case 's': {
        if (how.size != 0) return NULL;
        const char *text = va_arg(*arguments, const char *);
        size_t length = 0;
        while (text && (how.precision < 0 || length < (size_t)how.precision) && text[length]) length++;
        padded(writer, &how, "", text ? tg_bytes_of(text, length) : tg_str(how.precision < 0 ? "(null)" : ""), false);
        break;
    }
    case 'c': {
        if (how.size != 0) return NULL;
        uint8_t byte = (uint8_t)va_arg(*arguments, int);
        padded(writer, &how, "", tg_bytes_of(&byte, 1), false);
        break;
    }
    case 'p': {
        char text[24], *end = text + sizeof text;
        char *begin = digits(end, (uint64_t)(uintptr_t)va_arg(*arguments, void *), 16, false);
        padded(writer, &how, "0x", tg_bytes_of(begin, (size_t)(end - begin)), false);
        break;
    }
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X': formatted_number(writer, *format, &how, arguments); break;
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G': formatted_real(writer, *format, &how, va_arg(*arguments, double)); break;
    case '%': tg_write_text(writer, "%"); break;
    default: return NULL;
    }
    return format + 1;
}

void tg_write_formatted(tg_writer *writer, const char *format, va_list arguments) {
    va_list rest;
    va_copy(rest, arguments);
    while (*format) {
        const char *percent = strchr(format, '%');
        if (!percent) {
            tg_write_text(writer, format);
            break;
        }
        tg_write(writer, tg_bytes_of(format, (size_t)(percent - format)));
        format = formatted(writer, percent + 1, &rest);
        if (!format) {
            // What its argument is, and where the next one lies, is not known: the rest stays as it is.
            tg_write_text(writer, percent);
            tg_refuse_record(
                tg_str("a format has a conversion that is none of d, i, u, o, x, X, f, e, g, c, s, p and %"));
            break;
        }
    }
    va_end(rest);
}

void tg_write_format(tg_writer *writer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tg_write_formatted(writer, format, arguments);
    va_end(arguments);
}

tg_bytes tg_formatted(const char *format, va_list arguments) {
    tg_writer writer = {NULL, 0, 0};
    tg_write_formatted(&writer, format, arguments);
    return tg_written(&writer);
}

tg_bytes tg_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tg_bytes text = tg_formatted(format, arguments);
    va_end(arguments);
    return text;
}
