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
        size_t room = writer->length + size;
        room = room < 512 ? 1024 : 2 * room;
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
    uint8_t *to = more(writer, 2 * (size_t)bytes.length);
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

// `text` with its width, which is how many characters it takes at least.
static void padded(tg_writer *writer, tg_bytes text, size_t width, bool is_left, bool is_zero) {
    size_t gap = width > text.length ? width - text.length : 0;
    if (is_zero && !is_left && text.length && text.at[0] == '-') {
        tg_write_text(writer, "-");
        text = tg_bytes_of(text.at + 1, text.length - 1);
    }
    if (!is_left && gap) memset(more(writer, gap), is_zero ? '0' : ' ', gap);
    tg_write(writer, text);
    if (is_left && gap) memset(more(writer, gap), ' ', gap);
}

// One number of a format: `size` is the length modifier.
static void formatted_number(tg_writer *writer, char letter, int size, size_t width, bool is_left, bool is_zero,
                             va_list *arguments) {
    char text[24], *end = text + sizeof text, *begin;
    uint64_t number;
    if (letter == 'd' || letter == 'i') {
        int64_t whole = size == 2   ? va_arg(*arguments, long long)
                        : size == 1 ? va_arg(*arguments, long)
                                    : va_arg(*arguments, int);
        number = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
        begin = digits(end, number, 10, false);
        if (whole < 0) *--begin = '-';
    } else {
        number = size == 2   ? va_arg(*arguments, unsigned long long)
                 : size == 1 ? va_arg(*arguments, unsigned long)
                             : va_arg(*arguments, unsigned);
        begin = digits(end, number, letter == 'u' ? 10 : 16, letter == 'X');
    }
    padded(writer, tg_bytes_of(begin, (size_t)(end - begin)), width, is_left, is_zero);
}

// The number here, or the next argument for `*`.
static size_t taken(const char **format, va_list *arguments) {
    size_t number = 0;
    if (**format == '*') {
        int given = va_arg(*arguments, int);
        ++*format;
        return given < 0 ? 0 : (size_t)given;
    }
    for (; **format >= '0' && **format <= '9'; ++*format) number = number * 10 + (size_t)(**format - '0');
    return number;
}

// What follows a `%`.
static const char *formatted(tg_writer *writer, const char *format, va_list *arguments) {
    bool is_left = false, is_zero = false, is_cut = false;
    for (; *format == '-' || *format == '0'; format++) *(*format == '-' ? &is_left : &is_zero) = true;
    size_t width = taken(&format, arguments), precision = 0;
    if (*format == '.') {
        format++;
        is_cut = true;
        precision = taken(&format, arguments);
    }
    int size = 0;
    for (; *format && strchr("hljzt", *format); format++) {
        if (*format == 'l') size++;
        if (*format == 'j') size = 2;
        if (*format == 'z' || *format == 't') size = sizeof(size_t) == sizeof(long) ? 1 : 2;
    }
    switch (*format) {
    case '\0': return format;
    case 's': {
        const char *text = va_arg(*arguments, const char *);
        size_t length = 0;
        while (text && (!is_cut || length < precision) && text[length]) length++;
        padded(writer, text ? tg_bytes_of(text, length) : tg_str(is_cut ? "" : "(null)"), width, is_left, false);
        break;
    }
    case 'c': {
        uint8_t byte = (uint8_t)va_arg(*arguments, int);
        padded(writer, tg_bytes_of(&byte, 1), width, is_left, false);
        break;
    }
    case 'p': {
        char text[24], *end = text + sizeof text;
        char *begin = digits(end, (uint64_t)(uintptr_t)va_arg(*arguments, void *), 16, false);
        tg_write_text(writer, "0x");
        tg_write(writer, tg_bytes_of(begin, (size_t)(end - begin)));
        break;
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X': formatted_number(writer, *format, size, width, is_left, is_zero, arguments); break;
    case '%': tg_write_text(writer, "%"); break;
    default: tg_end("a format has a conversion that is none of d, i, u, x, X, c, s, p and %");
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
