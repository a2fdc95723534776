// JSON, strictly as RFC 8259 has it: a text is checked once, and then only walked over.

#include <stdlib.h>

#include "inside.h"

enum { DEEPEST = 128 };

static bool is_space(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }
static bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

static const uint8_t *after_space(const uint8_t *at, const uint8_t *end) {
    while (at < end && is_space(*at)) at++;
    return at;
}

// A text while it is checked: where it goes on, and what is wrong there.
typedef struct check {
    const uint8_t *at, *end;
    const char *wrong;
} check;

static bool wrong(check *check, const char *why) {
    check->wrong = check->at == check->end ? "the text ends too early" : why;
    return false;
}

static bool some_digits(check *check) {
    if (check->at == check->end || !is_digit(*check->at)) return wrong(check, "a digit is missing");
    while (check->at < check->end && is_digit(*check->at)) check->at++;
    return true;
}

static bool number(check *check) {
    if (*check->at == '-') check->at++;
    if (check->at < check->end && *check->at == '0') {
        check->at++;
    } else if (!some_digits(check)) {
        return false;
    }
    if (check->at < check->end && *check->at == '.') {
        check->at++;
        if (!some_digits(check)) return false;
    }
    if (check->at < check->end && (*check->at | 32) == 'e') {
        check->at++;
        if (check->at < check->end && (*check->at == '+' || *check->at == '-')) check->at++;
        return some_digits(check);
    }
    return true;
}

// Four hexadecimal digits; -1 if there are none.
static int32_t four_digits(const uint8_t *at, const uint8_t *end) {
    int32_t unit = 0;
    if (end - at < 4) return -1;
    for (int n = 0; n < 4; n++) {
        uint8_t digit = at[n], lower = digit | 32;
        if (is_digit(digit)) {
            unit = unit << 4 | (digit - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            unit = unit << 4 | (lower - 'a' + 10);
        } else {
            return -1;
        }
    }
    return unit;
}

// The character of `\u` and what follows, of which `at` is the first digit; -1 for half a pair. `at` goes behind it.
static int32_t escaped(const uint8_t **at, const uint8_t *end) {
    int32_t unit = four_digits(*at, end);
    if (unit < 0) return -1;
    *at += 4;
    if (unit < 0xd800 || unit > 0xdfff) return unit;
    if (unit > 0xdbff || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u') return -1;
    int32_t second = four_digits(*at + 2, end);
    if (second < 0xdc00 || second > 0xdfff) return -1;
    *at += 6;
    return 0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
}

// A string from its quote.
static bool string(check *check) {
    for (check->at++;; check->at++) {
        if (check->at == check->end) return wrong(check, "");
        if (*check->at == '"') break;
        if (*check->at < 0x20) return wrong(check, "a control character stands in a string");
        if (*check->at != '\\') continue;
        if (++check->at == check->end) return wrong(check, "");
        if (*check->at == 'u') {
            const uint8_t *at = check->at + 1;
            if (escaped(&at, check->end) < 0) return wrong(check, "an escape is no character");
            check->at = at - 1;
        } else if (!memchr("\"\\/bfnrt", *check->at, 8)) {
            return wrong(check, "an escape is unknown");
        }
    }
    check->at++;
    return true;
}

static bool word(check *check, const char *text) {
    size_t length = strlen(text);
    if ((size_t)(check->end - check->at) < length || memcmp(check->at, text, length) != 0) {
        return wrong(check, "a value is missing");
    }
    check->at += length;
    return true;
}

static bool scalar(check *check) {
    switch (*check->at) {
    case '"': return string(check);
    case 't': return word(check, "true");
    case 'f': return word(check, "false");
    case 'n': return word(check, "null");
    default: break;
    }
    if (*check->at != '-' && !is_digit(*check->at)) return wrong(check, "a value is missing");
    return number(check);
}

static bool byte(check *check, uint8_t wanted, const char *why) {
    check->at = after_space(check->at, check->end);
    if (check->at == check->end || *check->at != wanted) return wrong(check, why);
    check->at++;
    return true;
}

// The name of a member and its colon.
static bool member_name(check *check) {
    check->at = after_space(check->at, check->end);
    if (check->at == check->end || *check->at != '"') return wrong(check, "a name is missing");
    return string(check) && byte(check, ':', "a colon is missing");
}

// One value with all that is in it.
static bool whole_value(check *check) {
    uint8_t closing[DEEPEST];
    int depth = 0;
    for (;;) {
        check->at = after_space(check->at, check->end);
        if (check->at == check->end) return wrong(check, "");
        uint8_t first = *check->at;
        if (first == '{' || first == '[') {
            if (depth == DEEPEST) return wrong(check, "it is more than 128 deep");
            closing[depth++] = (uint8_t)(first + 2);
            check->at = after_space(check->at + 1, check->end);
            bool is_empty = check->at < check->end && *check->at == first + 2;
            if (!is_empty) {
                if (first == '{' && !member_name(check)) return false;
                continue;
            }
        } else if (!scalar(check)) {
            return false;
        }
        // Behind a value, or at the end of what holds nothing.
        for (;;) {
            if (depth == 0) return true;
            check->at = after_space(check->at, check->end);
            if (check->at == check->end || *check->at != closing[depth - 1]) break;
            check->at++;
            depth--;
        }
        if (!byte(check, ',', "a comma is missing")) return false;
        if (closing[depth - 1] == '}' && !member_name(check)) return false;
    }
}

const char *tg_json_read(tg_bytes text, tg_json *json, uint32_t *wrong_at) {
    uint32_t until = text.at ? tg_utf8_until(text) : 0;
    const uint8_t *begin = text.at, *end = text.at + text.length;
    if (until != text.length) {
        *wrong_at = until;
        return "it is not UTF-8";
    }
    check check = {after_space(begin, end), end, NULL};
    json->at = check.at;
    bool is_right = whole_value(&check);
    json->end = check.at;
    if (is_right) {
        check.at = after_space(check.at, end);
        if (check.at == end) return NULL;
        check.wrong = "more follows";
    }
    *wrong_at = (uint32_t)(check.at - begin);
    return check.wrong;
}

// Behind a string that has been checked, from its quote.
static const uint8_t *after_string(const uint8_t *at) {
    for (at++; *at != '"'; at++) {
        if (*at == '\\') at++;
    }
    return at + 1;
}

// Behind a value that has been checked.
static const uint8_t *after_value(const uint8_t *at, const uint8_t *end) {
    int depth = 0;
    do {
        switch (*at) {
        case '"': at = after_string(at); break;
        case '{':
        case '[':
            depth++;
            at++;
            break;
        case '}':
        case ']':
            depth--;
            at++;
            break;
        default: at++;
        }
        // A number or a word ends where something else begins.
    } while (at < end && (depth != 0 || (*at != ',' && *at != '}' && *at != ']' && !is_space(*at))));
    return at;
}

tg_json_kind tg_json_kind_of(tg_json json) {
    if (!json.at) return TG_JSON_NONE;
    switch (*json.at) {
    case 'n': return TG_JSON_NULL;
    case 't':
    case 'f': return TG_JSON_BOOLEAN;
    case '"': return TG_JSON_STRING;
    case '[': return TG_JSON_ARRAY;
    case '{': return TG_JSON_OBJECT;
    default: return TG_JSON_NUMBER;
    }
}

tg_json_items tg_json_items_of(tg_json json) {
    tg_json_kind kind = tg_json_kind_of(json);
    tg_json_items items = {NULL, NULL, kind == TG_JSON_OBJECT};
    if (kind == TG_JSON_OBJECT || kind == TG_JSON_ARRAY) {
        items.at = json.at + 1;
        items.end = json.end - 1;
    }
    return items;
}

bool tg_json_next(tg_json_items *items, tg_json *name, tg_json *value) {
    if (!items->at) return false;
    const uint8_t *at = after_space(items->at, items->end);
    if (at == items->end) return false;
    if (*at == ',') at = after_space(at + 1, items->end);
    if (items->is_object) {
        const uint8_t *begin = at;
        at = after_string(at);
        if (name) {
            name->at = begin;
            name->end = at;
        }
        // The colon.
        at = after_space(after_space(at, items->end) + 1, items->end);
    }
    value->at = at;
    items->at = value->end = after_value(at, items->end);
    return true;
}

bool tg_json_string(tg_json json, tg_bytes *text) {
    if (tg_json_kind_of(json) != TG_JSON_STRING) return false;
    const uint8_t *at = json.at + 1, *end = json.end - 1;
    size_t length = (size_t)(end - at);
    if (!memchr(at, '\\', length)) {
        *text = tg_bytes_of(at, length);
        return true;
    }
    // Without its escapes it is shorter.
    uint8_t *begin = (uint8_t *)tg_memory(length), *to = begin;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        static const char ESCAPES[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
        if (at[1] != 'u') {
            *to++ = (uint8_t)MEANT[strchr(ESCAPES, at[1]) - ESCAPES];
            at += 2;
            continue;
        }
        at += 2;
        uint32_t character = (uint32_t)escaped(&at, end);
        if (character < 0x80) {
            *to++ = (uint8_t)character;
        } else if (character < 0x800) {
            *to++ = (uint8_t)(0xc0 | character >> 6);
            *to++ = (uint8_t)(0x80 | (character & 63));
        } else {
            if (character >= 0x10000) {
                *to++ = (uint8_t)(0xf0 | character >> 18);
                *to++ = (uint8_t)(0x80 | (character >> 12 & 63));
            } else {
                *to++ = (uint8_t)(0xe0 | character >> 12);
            }
            *to++ = (uint8_t)(0x80 | (character >> 6 & 63));
            *to++ = (uint8_t)(0x80 | (character & 63));
        }
    }
    *text = tg_bytes_of(begin, (size_t)(to - begin));
    return true;
}

tg_json tg_json_member(tg_json json, const char *name) {
    tg_json found = {NULL, NULL}, key, value;
    if (tg_json_kind_of(json) != TG_JSON_OBJECT) return found;
    tg_json_items items = tg_json_items_of(json);
    while (tg_json_next(&items, &key, &value)) {
        tg_bytes text;
        if (tg_json_string(key, &text) && tg_equals(text, name)) found = value;
    }
    return found;
}

bool tg_json_number(tg_json json, double *number) {
    if (tg_json_kind_of(json) != TG_JSON_NUMBER) return false;
    char text[64], *copy = text;
    size_t length = (size_t)(json.end - json.at);
    if (length >= sizeof text) copy = (char *)tg_memory(length + 1);
    memcpy(copy, json.at, length);
    copy[length] = '\0';
    double found = strtod(copy, NULL);
    if (found - found != 0) return false;
    *number = found;
    return true;
}

// The exponent of a number that has been checked, from its `e`. It is cut where no text is as long.
static int64_t exponent_of(const uint8_t *at, const uint8_t *end) {
    int64_t exponent = 0;
    bool is_negative = end - at > 1 && at[1] == '-';
    for (; at < end; at++) {
        if (is_digit(*at) && exponent < INT64_C(1000000000000)) exponent = exponent * 10 + (*at - '0');
    }
    return is_negative ? -exponent : exponent;
}

// Takes one more digit; false if that is too large.
static bool add_digit(uint64_t *whole, uint64_t digit, uint64_t most) {
    if (*whole > (most - digit) / 10) return false;
    *whole = *whole * 10 + digit;
    return true;
}

bool tg_json_integer(tg_json json, int64_t *number) {
    if (tg_json_kind_of(json) != TG_JSON_NUMBER) return false;
    bool is_negative = *json.at == '-';
    const uint8_t *begin = json.at + is_negative, *end = begin, *point = NULL;
    for (; end < json.end && (is_digit(*end) || *end == '.'); end++) {
        if (*end == '.') point = end;
    }
    // How many digits stand before the point once the exponent has moved it: 5.0 and 1e3 are whole numbers too.
    int64_t left = (point ? point : end) - begin + exponent_of(end, json.end);
    uint64_t whole = 0, most = (uint64_t)INT64_MAX + is_negative;
    for (const uint8_t *at = begin; at < end; at++) {
        if (*at == '.') continue;
        if (left-- > 0 ? !add_digit(&whole, (uint64_t)(*at - '0'), most) : *at != '0') return false;
    }
    for (; left > 0 && whole != 0; left--) {
        if (!add_digit(&whole, 0, most)) return false;
    }
    *number = is_negative ? -(int64_t)(whole - (whole != 0)) - (whole != 0) : (int64_t)whole;
    return true;
}

bool tg_json_boolean(tg_json json, bool *boolean) {
    if (tg_json_kind_of(json) != TG_JSON_BOOLEAN) return false;
    *boolean = *json.at == 't';
    return true;
}
