// Takes lines of access logs apart.
//
//   ::1 - frank [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 203023 "http://example.com/" "Mozilla/5.0"
//
// The last two fields are those of the Combined Log Format (Apache HTTP Server, mod_log_config).

#include "line.h"

// What is left of a line.
typedef struct rest {
    const uint8_t *at, *end;
} rest;

static bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

static bool take(rest *rest, char byte) {
    if (rest->at == rest->end || *rest->at != (uint8_t)byte) return false;
    rest->at++;
    return true;
}

static tg_bytes or_null(tg_bytes text) { return tg_equals(text, "-") ? tg_null() : text; }

// Bytes up to a space; the space is taken too.
static bool take_word(rest *rest, tg_bytes *word) {
    const uint8_t *begin = rest->at;
    const uint8_t *end = memchr(begin, ' ', (size_t)(rest->end - begin));
    if (!end || end == begin) return false;
    *word = tg_bytes_of(begin, (size_t)(end - begin));
    rest->at = end + 1;
    return true;
}

// A user, whose name may have spaces: up to ` [`.
static bool take_user(rest *rest, tg_bytes *user) {
    const uint8_t *begin = rest->at;
    for (const uint8_t *at = begin; rest->end - at >= 2; at++) {
        if (at[0] != ' ' || at[1] != '[') continue;
        if (at == begin) return false;
        *user = tg_bytes_of(begin, (size_t)(at - begin));
        rest->at = at + 1;
        return true;
    }
    return false;
}

// So many digits as a number.
static bool take_number(rest *rest, int digits, int32_t *number) {
    *number = 0;
    for (; digits != 0; digits--) {
        if (rest->at == rest->end || !is_digit(*rest->at)) return false;
        *number = *number * 10 + (*rest->at++ - '0');
    }
    return true;
}

static bool take_month(rest *rest, int32_t *month) {
    static const char NAMES[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    if (rest->end - rest->at < 3) return false;
    for (*month = 1; *month <= 12; ++*month) {
        if (memcmp(rest->at, NAMES + 3 * (*month - 1), 3) != 0) continue;
        rest->at += 3;
        return true;
    }
    return false;
}

static bool is_leap_year(int32_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

static int32_t days_in(int32_t year, int32_t month) {
    static const int8_t DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return DAYS[month - 1] + (month == 2 && is_leap_year(year));
}

// Days since 1970-01-01 (Hinnant: chrono-compatible low-level date algorithms).
static int64_t days_until(int32_t year, int32_t month, int32_t day) {
    int64_t from_march = year - (month <= 2), era = (from_march >= 0 ? from_march : from_march - 399) / 400;
    int64_t of_era = from_march - era * 400, of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

// Of the years 0 to 9999, in UTC.
static const int64_t FIRST_SECOND = INT64_C(-62167219200), LAST_SECOND = INT64_C(253402300799);

// `17/May/2015:10:05:03 +0000`
static bool take_time(rest *rest, int64_t *time) {
    int32_t day, month, year, hour, minute, second, zone_hours, zone_minutes;
    if (!take_number(rest, 2, &day) || !take(rest, '/') || !take_month(rest, &month) || !take(rest, '/')) return false;
    if (!take_number(rest, 4, &year) || !take(rest, ':') || !take_number(rest, 2, &hour) || !take(rest, ':'))
        return false;
    if (!take_number(rest, 2, &minute) || !take(rest, ':') || !take_number(rest, 2, &second)) return false;
    bool is_west = rest->end - rest->at > 1 && rest->at[1] == '-';
    if (!take(rest, ' ') || (!take(rest, '+') && !take(rest, '-'))) return false;
    if (!take_number(rest, 2, &zone_hours) || !take_number(rest, 2, &zone_minutes)) return false;
    if (day < 1 || day > days_in(year, month) || hour > 23 || minute > 59 || zone_hours > 15 || zone_minutes > 59) {
        return false;
    }
    // A leap second is that of the next minute.
    if (second > 60) return false;
    int64_t zone = (zone_hours * 60 + zone_minutes) * 60;
    int64_t seconds = days_until(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    seconds += is_west ? zone : -zone;
    // What is written of it has a year of four digits.
    if (seconds < FIRST_SECOND || seconds > LAST_SECOND) return false;
    *time = seconds * 1000000;
    return true;
}

// A text in quotes, in which a backslash hides the next byte. At the end of the line it may be cut.
static bool take_quoted(rest *rest, tg_bytes *text, bool *is_cut) {
    if (!take(rest, '"')) return false;
    const uint8_t *begin = rest->at;
    for (; rest->at < rest->end && *rest->at != '"'; rest->at++) {
        if (*rest->at == '\\' && rest->end - rest->at > 1) rest->at++;
    }
    *text = tg_bytes_of(begin, (size_t)(rest->at - begin));
    bool is_closed = take(rest, '"');
    if (is_cut) *is_cut = !is_closed;
    return is_closed || is_cut;
}

// `-`, or a number.
static bool take_bytes(rest *rest, int64_t *bytes) {
    *bytes = -1;
    if (take(rest, '-')) return true;
    const uint8_t *begin = rest->at;
    for (*bytes = 0; rest->at < rest->end && is_digit(*rest->at); rest->at++) {
        // More digits than any file has bytes.
        if (rest->at - begin == 18) return false;
        *bytes = *bytes * 10 + (*rest->at - '0');
    }
    return rest->at != begin;
}

// Method, path and protocol, if the request is these three.
static void split_request(tg_bytes request, line *line) {
    rest rest = {request.at, request.at + request.length};
    tg_bytes method, path;
    line->request = or_null(request);
    if (!take_word(&rest, &method) || !take_word(&rest, &path)) return;
    tg_bytes protocol = tg_bytes_of(rest.at, (size_t)(rest.end - rest.at));
    if (!tg_begins_with(protocol, "HTTP/") || memchr(rest.at, ' ', protocol.length)) return;
    const uint8_t *mark = memchr(path.at, '?', path.length);
    line->request = tg_null();
    line->method = method;
    line->protocol = protocol;
    line->path = mark ? tg_bytes_of(path.at, (size_t)(mark - path.at)) : path;
    if (mark) line->query = tg_bytes_of(mark + 1, (size_t)(path.at + path.length - mark - 1));
}

static const char *read_parts(rest *rest, form form, line *line) {
    tg_bytes request, text;
    int32_t status;
    if (!take_word(rest, &line->remote)) return "the remote host";
    if (!take_word(rest, &text)) return "the identity";
    line->ident = or_null(text);
    if (!take_user(rest, &text)) return "the user and `[`";
    line->user = or_null(text);
    if (!take(rest, '[') || !take_time(rest, &line->time) || !take(rest, ']'))
        return "a time as [17/May/2015:10:05:03 +0000]";
    if (!take(rest, ' ') || !take_quoted(rest, &request, NULL)) return "the request in quotes";
    split_request(request, line);
    if (!take(rest, ' ') || !take_number(rest, 3, &status)) return "a status of three digits";
    line->status = (uint32_t)status;
    if (!take(rest, ' ') || !take_bytes(rest, &line->bytes)) return "a number of bytes, or `-`";
    if (rest->at == rest->end && form != COMBINED) return NULL;
    if (form == COMMON) return "the end of the line";
    if (!take(rest, ' ') || !take_quoted(rest, &text, NULL)) return "the referrer in quotes";
    line->referrer = or_null(text);
    if (!take(rest, ' ') || !take_quoted(rest, &text, &line->is_cut)) return "the agent in quotes";
    line->agent = or_null(text);
    return rest->at == rest->end ? NULL : "the end of the line";
}

const char *line_read(tg_bytes text, form form, line *line, uint32_t *at) {
    while (text.length != 0 && (text.at[text.length - 1] == '\n' || text.at[text.length - 1] == '\r')) text.length--;
    memset(line, 0, sizeof *line);
    rest rest = {text.at, text.at + text.length};
    const char *expected = read_parts(&rest, form, line);
    *at = (uint32_t)(rest.at - text.at);
    return expected;
}

// The value of a hexadecimal digit; -1 if it is none.
static int digit_of(uint8_t byte) {
    if (is_digit(byte)) return byte - '0';
    uint8_t lower = byte | 32;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

tg_bytes line_unescape(tg_bytes text) {
    static const char ESCAPES[] = "\"\\bfnrtv", MEANT[] = "\"\\\b\f\n\r\t\v";
    if (text.length == 0 || !memchr(text.at, '\\', text.length)) return text;
    uint8_t *begin = tg_memory(text.length), *to = begin;
    for (uint32_t at = 0; at < text.length; at++) {
        uint32_t left = text.length - at;
        const char *escape = NULL;
        if (text.at[at] == '\\' && left > 1 && text.at[at + 1]) escape = strchr(ESCAPES, text.at[at + 1]);
        if (escape) {
            *to++ = (uint8_t)MEANT[escape - ESCAPES];
            at++;
        } else if (text.at[at] == '\\' && left > 3 && text.at[at + 1] == 'x' && digit_of(text.at[at + 2]) >= 0 &&
                   digit_of(text.at[at + 3]) >= 0) {
            *to++ = (uint8_t)(digit_of(text.at[at + 2]) << 4 | digit_of(text.at[at + 3]));
            at += 3;
        } else {
            // What the server did not write stays as it is.
            *to++ = text.at[at];
        }
    }
    return tg_bytes_of(begin, (size_t)(to - begin));
}

// Whether a text has a word, which is in lower case, in any case.
static bool has_word(tg_bytes text, const char *word) {
    size_t length = strlen(word);
    for (uint32_t at = 0; at + length <= text.length; at++) {
        size_t same = 0;
        while (same < length && (text.at[at + same] | 32) == (uint8_t)word[same]) same++;
        if (same == length) return true;
    }
    return false;
}

bool line_is_bot(const line *line) {
    static const char *const WORDS[] = {"bot", "crawl", "spider", "slurp"};
    for (size_t word = 0; word < sizeof WORDS / sizeof *WORDS; word++) {
        if (has_word(line->agent, WORDS[word])) return true;
    }
    return false;
}

bool line_is_asset(const line *line) {
    static const char *const ENDS[] = {".css", ".js",   ".map",  ".png",   ".jpg", ".jpeg", ".gif", ".ico",
                                       ".svg", ".webp", ".woff", ".woff2", ".ttf", ".eot",  ".otf"};
    for (size_t end = 0; end < sizeof ENDS / sizeof *ENDS; end++) {
        uint32_t length = (uint32_t)strlen(ENDS[end]);
        if (line->path.length < length) continue;
        if (has_word(tg_bytes_of(line->path.at + line->path.length - length, length), ENDS[end])) return true;
    }
    return false;
}
