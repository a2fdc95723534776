// Text as printf makes it.

#include "inside.h"

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
