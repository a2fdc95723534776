// What an operator says of itself, held in tests against what the host refuses.

#include "testing.h"

enum { NAME_BYTES = 128, METRIC_NAME = 64, HELP_BYTES = 512, SCHEMA_BYTES = 256 << 10, BOUNDS = 32 };

// Characters that cannot be seen, or change how what is around them is shown.
static const uint32_t DISTURBING[][2] = {
    {0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},   {0x115f, 0x1160},
    {0x17b4, 0x17b5}, {0x180e, 0x180e}, {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x2064},
    {0x2066, 0x206f}, {0x3164, 0x3164}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
// Scripts need these in a text, and no name does.
static const uint32_t FIRST_JOINER = 0x200c, LAST_JOINER = 0x200d;

static bool is_plain(tg_bytes text, bool is_name) {
    if (!tg_is_utf8(text)) return false;
    for (uint32_t at = 0; at < text.length;) {
        uint8_t first = text.at[at++];
        uint32_t character = first < 0x80 ? first : first < 0xe0 ? first & 31 : first < 0xf0 ? first & 15 : first & 7;
        for (; at < text.length && (text.at[at] & 0xc0) == 0x80; at++) character = character << 6 | (text.at[at] & 63);
        if (is_name && character >= FIRST_JOINER && character <= LAST_JOINER) return false;
        for (size_t range = 0; range < sizeof DISTURBING / sizeof *DISTURBING; range++) {
            if (character >= DISTURBING[range][0] && character <= DISTURBING[range][1]) return false;
        }
    }
    return true;
}

// Says what is wrong: always false.
static bool refused(const char *format, ...) TG_PRINTF(1, 2);
static bool refused(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tg_bytes why = tg_formatted(format, arguments);
    va_end(arguments);
    return tg_refuse(TG_PERMANENT, "refused", "the host refuses the operator: %.*s", TG_SHOW(why));
}

static bool is_name(const char *what, tg_bytes name) {
    if (name.length == 0) return refused("its %s is empty", what);
    if (name.length > NAME_BYTES) return refused("its %s has %u bytes, limit %d", what, name.length, NAME_BYTES);
    if (is_plain(name, true)) return true;
    return refused("its %s has characters that cannot be shown: \"%.*s\"", what, TG_SHOW(name));
}

static bool is_digits(tg_bytes part) {
    for (uint32_t at = 0; at < part.length; at++) {
        if (part.at[at] < '0' || part.at[at] > '9') return false;
    }
    return part.length != 0;
}

// Takes what stands before one of some letters, which is taken too and given.
static char taken_until(tg_bytes *rest, const char *ends, tg_bytes *part) {
    uint32_t at = 0;
    while (at < rest->length && !strchr(ends, rest->at[at])) at++;
    *part = tg_bytes_of(rest->at, at);
    char end = at < rest->length ? (char)rest->at[at] : '\0';
    if (end) at++;
    *rest = tg_bytes_of(rest->at + at, rest->length - at);
    return end;
}

// Versions as semver.org has them: three numbers, then parts behind `-` and `+`.
static bool is_semver(tg_bytes version) {
    tg_bytes rest = version, part;
    char end = '\0';
    for (int number = 0; number < 3; number++) {
        end = taken_until(&rest, number < 2 ? "." : "-+", &part);
        if (!is_digits(part) || (part.length > 1 && part.at[0] == '0')) return false;
        if (number < 2 && end != '.') return false;
    }
    while (end) {
        bool is_build = end == '+';
        end = taken_until(&rest, is_build ? "." : ".+", &part);
        if (part.length == 0 || (!is_build && is_digits(part) && part.length > 1 && part.at[0] == '0')) return false;
        for (uint32_t at = 0; at < part.length; at++) {
            uint8_t lower = part.at[at] | 32;
            bool is_right = (part.at[at] >= '0' && part.at[at] <= '9') || (lower >= 'a' && lower <= 'z');
            if (!is_right && part.at[at] != '-') return false;
        }
        if (is_build && end == '.') end = '+';
    }
    return true;
}

// [a-z][a-z0-9_]* of at most 64 bytes.
static bool is_metric_name(const char *name) {
    size_t length = 0;
    for (; name[length]; length++) {
        char letter = name[length];
        bool is_inner = length != 0 && (letter == '_' || (letter >= '0' && letter <= '9'));
        if (!is_inner && (letter < 'a' || letter > 'z')) return false;
    }
    return length != 0 && length <= METRIC_NAME;
}

// The names under which a metric is shown, four at most.
static int names_shown(const tg_metric *metric, tg_bytes *names) {
    static const char *const SPREAD[] = {"_bucket", "_sum", "_count"};
    size_t length = strlen(metric->name);
    bool has_end = length >= 6 && strcmp(metric->name + length - 6, "_total") == 0;
    names[0] = tg_format("%s%s", metric->name, metric->kind == TG_COUNTER && !has_end ? "_total" : "");
    if (metric->kind != TG_HISTOGRAM) return 1;
    for (int end = 0; end < 3; end++) names[end + 1] = tg_format("%s%s", metric->name, SPREAD[end]);
    return 4;
}

// Whether nothing else is shown under a name of this metric.
static bool is_shown_alone(const tg_metric *metrics, uint32_t index) {
    tg_bytes own[4], others[4];
    int count = names_shown(&metrics[index], own);
    for (int name = 0; name < count; name++) {
        if (tg_equals(own[name], "series_refused_total")) {
            return refused("its metric \"%s\" is shown as one of the host", metrics[index].name);
        }
        for (uint32_t other = 0; other < index; other++) {
            int other_count = names_shown(&metrics[other], others);
            for (int at = 0; at < other_count; at++) {
                if (!tg_same(own[name], others[at])) continue;
                return refused("its metric \"%s\" is shown as %.*s, as its metric \"%s\" is", metrics[index].name,
                               TG_SHOW(own[name]), metrics[other].name);
            }
        }
    }
    return true;
}

static bool are_labels_right(const tg_metric *metric) {
    static const char *const RESERVED[] = {"slot", "revision", "le"};
    for (int label = 0; metric->labels && metric->labels[label]; label++) {
        const char *name = metric->labels[label];
        if (label == TG_MAX_LABELS) return refused("its metric \"%s\" has more than %d labels", metric->name, label);
        bool is_right = is_metric_name(name);
        for (int at = 0; at < 3; at++) is_right = is_right && strcmp(name, RESERVED[at]) != 0;
        if (!is_right)
            return refused("its metric \"%s\" has the label \"%s\", which no label may be", metric->name, name);
        for (int before = 0; before < label; before++) {
            if (strcmp(metric->labels[before], name) != 0) continue;
            return refused("its metric \"%s\" has the label \"%s\" twice", metric->name, name);
        }
    }
    return true;
}

static bool are_bounds_right(const tg_metric *metric) {
    if (metric->bound_count != 0 && metric->kind != TG_HISTOGRAM) {
        return refused("its metric \"%s\" has bounds and is no histogram", metric->name);
    }
    if (metric->bound_count > BOUNDS) {
        return refused("its metric \"%s\" has %u bounds, limit %d", metric->name, metric->bound_count, BOUNDS);
    }
    for (uint32_t at = 0; at < metric->bound_count; at++) {
        bool is_finite = metric->bounds[at] - metric->bounds[at] == 0;
        if (is_finite && (at == 0 || metric->bounds[at - 1] < metric->bounds[at])) continue;
        return refused("its metric \"%s\" has bounds that are not finite and ascending", metric->name);
    }
    return true;
}

static bool is_metric_right(const tg_metric *metrics, uint32_t index) {
    const tg_metric *metric = &metrics[index];
    if (!is_metric_name(metric->name)) {
        return refused("its metric \"%s\" has a name that is not [a-z][a-z0-9_]*, at most %d bytes", metric->name,
                       METRIC_NAME);
    }
    tg_bytes help = tg_str(metric->help ? metric->help : "");
    if (help.length > HELP_BYTES || !is_plain(help, false)) {
        return refused("its metric \"%s\" has a help that is not one line of at most %d bytes", metric->name,
                       HELP_BYTES);
    }
    return is_shown_alone(metrics, index) && are_labels_right(metric) && are_bounds_right(metric);
}

bool tg_test_is_declared(const tg_operator *with) {
    if (!is_name("name", tg_str(with->name ? with->name : ""))) return false;
    tg_bytes version = tg_str(with->version ? with->version : "");
    if (!is_name("version", version)) return false;
    if (!is_semver(version)) return refused("its version \"%.*s\" is not semver, such as 1.2.3", TG_SHOW(version));
    tg_bytes schema = tg_schema(with->config);
    if (schema.length > SCHEMA_BYTES) {
        return refused("its configuration schema has %u bytes, limit %d", schema.length, SCHEMA_BYTES);
    }
    tg_json json;
    uint32_t at;
    const char *wrong = tg_json_read(schema, &json, &at);
    if (wrong)
        return refused("its configuration schema is not JSON, as a default may not be: %s at byte %u", wrong, at);
    for (uint32_t output = 0; output < tg_running.output_count; output++) {
        if (!is_name("output", tg_running.outputs[output])) return false;
    }
    if (tg_running.metric_count > TG_MAX_METRICS) {
        return refused("it has %u metrics, limit %d", tg_running.metric_count, TG_MAX_METRICS);
    }
    for (uint32_t metric = 0; metric < tg_running.metric_count; metric++) {
        if (!is_metric_right(with->metrics, metric)) return false;
    }
    return true;
}
