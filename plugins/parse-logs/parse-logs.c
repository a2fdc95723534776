// Web access logs to JSON: one line in, one object out.

#include "line.h"

typedef struct config {
    int format;
    tg_list fields;
    int otherwise;
    int64_t longest;
    bool event_time, drop_bots, drop_assets;
} config;

enum { DEAD_LETTER, PASS, DROP };
static const char *const formats[] = {"any", "common", "combined", NULL};
static const char *const otherwises[] = {"dead-letter", "pass", "drop", NULL};
static const char *const names[] = {"remote",   "ident",   "user",   "time",  "method",   "path",  "query",
                                    "protocol", "request", "status", "bytes", "referrer", "agent", NULL};

static const tg_field name = {TG_ITEM(TG_KIND_CHOICE), .choices = names};
static const tg_field fields[] = {
    {TG_CHOICE(config, format, "format"),
     .help =
         "What lines are: `common` ends with the number of bytes, `combined` has referrer and agent, `any` may be both",
     .fallback = "\"any\"", .choices = formats},
    {TG_LIST(config, fields, "fields"), .help = "What the object has. The order is always that of all of them",
     .fallback =
         "[\"remote\",\"ident\",\"user\",\"time\",\"method\",\"path\",\"query\",\"protocol\",\"request\",\"status\","
         "\"bytes\",\"referrer\",\"agent\"]",
     .minimum = 1, .maximum = FIELD_COUNT, .item = &name},
    {TG_CHOICE(config, otherwise, "otherwise"), .help = "What becomes of a line that is none of the format",
     .fallback = "\"dead-letter\"", .choices = otherwises},
    {TG_INTEGER(config, longest, "longest"), .help = "The longest line that is read, bytes", .fallback = "65536",
     .minimum = 1, .maximum = 1048576},
    {TG_BOOLEAN(config, event_time, "event-time"), .help = "The time of the line becomes that of the record",
     .fallback = "true"},
    {TG_BOOLEAN(config, drop_bots, "drop-bots"), .help = "Requests of crawlers, by their agent, end here",
     .fallback = "false"},
    {TG_BOOLEAN(config, drop_assets, "drop-assets"),
     .help = "Requests for pictures, styles, scripts and fonts, by their path, end here", .fallback = "false"},
    TG_END,
};
static const tg_table table = {"How lines of an access log are read", sizeof(config), fields};

static config settings;
// Which fields are chosen.
static bool is_chosen[FIELD_COUNT];

enum { PARSED, CUT, BOT, ASSET, OTHER };
static const char *const kinds[] = {"parsed", "cut", "bot", "asset", "other"};
static const char *const labels[] = {"kind", NULL};
static const tg_metric metrics[] = {
    {.name = "lines_total", .kind = TG_COUNTER, .help = "Lines by what they were", .labels = labels},
    {.name = NULL},
};

static void count(tg_record *record, int kind) {
    tg_bytes label = tg_str(kinds[kind]);
    tg_count_for(record, 0, 1, &label, 1);
}

static bool start(void) {
    memset(is_chosen, 0, sizeof is_chosen);
    for (size_t field = 0; field < settings.fields.count; field++) {
        is_chosen[((const int *)settings.fields.items)[field]] = true;
    }
    return true;
}

// A value that is none of the format, and why.
static void no_line(tg_record *record, tg_bytes why) {
    count(record, OTHER);
    switch (settings.otherwise) {
    case PASS: tg_pass(record); return;
    case DROP: tg_drop(record); return;
    default: tg_dead_letter(record, why);
    }
}

// The name of a member, if it is chosen.
static bool member(tg_writer *json, int field) {
    if (!is_chosen[field]) return false;
    tg_write_text(json, json->length ? ",\"" : "{\"");
    tg_write_text(json, names[field]);
    tg_write_text(json, "\":");
    return true;
}

static void text_member(tg_writer *json, int field, tg_bytes text) {
    if (!member(json, field)) return;
    if (tg_is_null(text)) tg_write_text(json, "null");
    else tg_write_json(json, line_unescape(text));
}

// A number in so many digits, with a byte behind it.
static uint8_t *put(uint8_t *to, int64_t number, int digits, char after) {
    for (int digit = digits; digit-- != 0; number /= 10) to[digit] = (uint8_t)('0' + number % 10);
    to[digits] = (uint8_t)after;
    return to + digits + 1;
}

// RFC 3339 in UTC: 2015-05-17T10:05:03Z
static void time_member(tg_writer *json, int64_t time) {
    if (!member(json, TIME)) return;
    int64_t seconds = time / 1000000, days = seconds / 86400, left = seconds % 86400;
    if (left < 0) {
        days--;
        left += 86400;
    }
    // Hinnant: chrono-compatible low-level date algorithms.
    int64_t from_march = days + 719468, era = (from_march >= 0 ? from_march : from_march - 146096) / 146097;
    int64_t of_era = from_march - era * 146097;
    int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * years + years / 4 - years / 100), month = (5 * of_year + 2) / 153;
    int64_t year = years + era * 400 + (month >= 10);
    uint8_t text[24] = "\"", *to = put(text + 1, year, 4, '-');
    to = put(to, month < 10 ? month + 3 : month - 9, 2, '-');
    to = put(to, of_year - (153 * month + 2) / 5 + 1, 2, 'T');
    to = put(to, left / 3600, 2, ':');
    to = put(to, left / 60 % 60, 2, ':');
    to = put(to, left % 60, 2, 'Z');
    *to++ = '"';
    tg_write(json, tg_bytes_of(text, (size_t)(to - text)));
}

static void process(tg_record *record) {
    tg_bytes value = tg_value(record);
    line line;
    uint32_t at;
    if (tg_is_null(value)) {
        no_line(record, tg_str("value is null"));
        return;
    }
    if (value.length > settings.longest) {
        no_line(record,
                tg_format("line of %u bytes exceeds longest = %lld", value.length, (long long)settings.longest));
        return;
    }
    const char *expected = line_read(value, (form)settings.format, &line, &at);
    if (expected) {
        no_line(record, tg_format("value is no line of an access log: expected %s at byte %u", expected, at));
        return;
    }
    bool is_bot = settings.drop_bots && line_is_bot(&line);
    if (is_bot || (settings.drop_assets && line_is_asset(&line))) {
        count(record, is_bot ? BOT : ASSET);
        tg_drop(record);
        return;
    }
    count(record, line.is_cut ? CUT : PARSED);
    tg_writer json = {0};
    text_member(&json, REMOTE, line.remote);
    text_member(&json, IDENT, line.ident);
    text_member(&json, USER, line.user);
    time_member(&json, line.time);
    text_member(&json, METHOD, line.method);
    text_member(&json, PATH, line.path);
    text_member(&json, QUERY, line.query);
    text_member(&json, PROTOCOL, line.protocol);
    text_member(&json, REQUEST, line.request);
    if (member(&json, STATUS)) tg_write_format(&json, "%u", line.status);
    if (member(&json, BYTES)) {
        if (line.bytes < 0) tg_write_text(&json, "null");
        else tg_write_format(&json, "%lld", (long long)line.bytes);
    }
    text_member(&json, REFERRER, line.referrer);
    text_member(&json, AGENT, line.agent);
    tg_write_text(&json, "}");
    tg_set_value(record, tg_written(&json));
    if (settings.event_time) tg_set_event_time(record, line.time);
}

TG_OPERATOR(.name = "parse-logs", .version = "1.0.0", .reads = TG_READS_VALUE, .config = &table, .settings = &settings,
            .metrics = metrics, .start = start, .process = process);
