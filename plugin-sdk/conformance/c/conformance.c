// The operator of the conformance suite, in C: ../README.md says what it does.

#include <stdlib.h>

#include "tidegate/tidegate.h"

typedef struct nested {
    tg_bytes name;
    bool on;
} nested;

typedef struct config {
    int mode;
    int64_t limit;
    tg_list words;
    double ratio;
    tg_bytes label;
    const nested *nested;
} config;

enum { NORMAL, REFUSE, TRANSIENT, PANIC };
static const char *const modes[] = {"normal", "refuse", "transient", "panic", NULL};

static const tg_field nested_fields[] = {
    {TG_TEXT(nested, name, "name"), .help = "A text"},
    {TG_BOOLEAN(nested, on, "on"), .help = "Whether it is on", .fallback = "true"},
    TG_END,
};
static const tg_table nested_table = {"A table within", sizeof(nested), nested_fields};

static const tg_field word = {TG_ITEM(TG_KIND_TEXT), .minimum = 1};

static const tg_field fields[] = {
    {TG_CHOICE(config, mode, "mode"), .help = "What it does when it starts", .fallback = "\"normal\"",
     .choices = modes},
    {TG_INTEGER(config, limit, "limit"), .help = "A whole number", .fallback = "1000", .minimum = 1,
     .maximum = 1000000},
    {TG_LIST(config, words, "words"), .help = "Some texts", .fallback = "[]", .item = &word},
    {TG_NUMBER(config, ratio, "ratio"), .help = "A number", .fallback = "0.5", .least = 0, .most = 1},
    {TG_TEXT(config, label, "label"), .help = "A text that may be absent", .optional = true},
    {TG_TABLE(config, nested, "nested"), .help = "A table that may be absent", .optional = true,
     .table = &nested_table},
    TG_END,
};
static const tg_table table = {"What the conformance suite configures", sizeof(config), fields};

static config settings;

enum { LEFT = 1, RIGHT, OUT_16 = 16 };
static const char *const outputs[] = {"left",   "right",  "out-3",  "out-4",  "out-5",  "out-6",
                                      "out-7",  "out-8",  "out-9",  "out-10", "out-11", "out-12",
                                      "out-13", "out-14", "out-15", "out-16", NULL};

enum { SEEN, WORDS, LAST_BYTES, VALUE_BYTES };
static const char *const kinds[] = {"kind", NULL};
static const double bounds[] = {1, 10, 100, 1000};
static const tg_metric metrics[] = {
    {.name = "seen_total", .kind = TG_COUNTER, .help = "Records that were counted"},
    {.name = "words_total", .kind = TG_COUNTER, .help = "Words by kind", .labels = kinds},
    {.name = "last_bytes", .kind = TG_GAUGE, .help = "Bytes of the last value"},
    {.name = "value_bytes", .kind = TG_HISTOGRAM, .help = "Bytes of values", .bounds = bounds, .bound_count = 4},
    {.name = NULL},
};

static bool start(void) {
    switch (settings.mode) {
    case REFUSE: return tg_refuse(TG_BAD_CONFIGURATION, "refused", "config key \"mode\" is \"refuse\"");
    case TRANSIENT: return tg_refuse(TG_TRANSIENT, "not-now", "asked to come later");
    case PANIC: return tg_refuse(TG_PERMANENT, "panic", "asked to fail in init (%s:%d)", "conformance.c", __LINE__);
    default: return true;
    }
}

static void echo(tg_record *record) { tg_set_value(record, tg_value(record)); }

static void upper(tg_record *record) {
    tg_bytes text;
    if (!tg_text(record, &text)) return;
    uint8_t *to = tg_set_value_in_place(record, text.length);
    for (uint32_t at = 0; at < text.length; at++) {
        uint8_t byte = text.at[at];
        to[at] = (uint8_t)(byte >= 'a' && byte <= 'z' ? byte - 32 : byte);
    }
}

static void write_hex_or_null(tg_writer *json, tg_bytes bytes) {
    if (tg_is_null(bytes)) {
        tg_write_text(json, "null");
        return;
    }
    tg_write_text(json, "\"");
    tg_write_hex(json, bytes);
    tg_write_text(json, "\"");
}

static void write_pairs(tg_writer *json, tg_pairs pairs) {
    const char *before = "[";
    tg_write_text(json, "[");
    for (tg_pair pair; tg_next(&pairs, &pair); before = ",[") {
        tg_write_text(json, before);
        tg_write_json(json, pair.name);
        tg_write_text(json, ",");
        write_hex_or_null(json, pair.value);
        tg_write_text(json, "]");
    }
    tg_write_text(json, "]");
}

static void show(tg_record *record) {
    tg_id id = tg_identity(record);
    int64_t time = tg_event_time(record);
    tg_writer json = {0};
    tg_write_format(
        &json, "{\"id\":[\"%s\",%u,%u,\"%llu\",\"%llu\"],\"time\":", id.origin == TG_ORIGIN_TIMER ? "timer" : "source",
        id.source, id.partition, (unsigned long long)id.offset, (unsigned long long)id.emit);
    if (time == TG_NO_TIME) tg_write_text(&json, "null");
    else tg_write_format(&json, "%lld", (long long)time);
    tg_write_format(&json, ",\"clock\":%lld,\"key\":", (long long)tg_now(record));
    write_hex_or_null(&json, tg_key(record));
    tg_write_text(&json, ",\"value\":");
    write_hex_or_null(&json, tg_value(record));
    tg_write_text(&json, ",\"headers\":");
    write_pairs(&json, tg_headers(record));
    tg_write_text(&json, ",\"attributes\":");
    write_pairs(&json, tg_attributes(record));
    tg_write_text(&json, "}");
    tg_set_value(record, tg_written(&json));
}

static void set_key(tg_record *record) { tg_set_key(record, tg_str("a new key")); }
static void null_key(tg_record *record) { tg_set_key(record, tg_null()); }
static void null_value(tg_record *record) { tg_set_value(record, tg_null()); }
static void empty_value(tg_record *record) { tg_set_value(record, tg_str("")); }

static void headers(tg_record *record) {
    tg_set_header(record, tg_str("a"), tg_str("1"));
    tg_add_header(record, tg_str("b"), tg_str("2"));
    tg_add_header(record, tg_str("b"), tg_str("3"));
    tg_remove_header(record, tg_str("c"));
    tg_set_header(record, tg_str("d"), tg_null());
    tg_add_header(record, tg_str("e"), tg_null());
}

static void attributes(tg_record *record) {
    tg_set_attribute(record, tg_str("a"), tg_str("1"));
    tg_add_attribute(record, tg_str("b"), tg_str("2"));
    tg_add_attribute(record, tg_str("b"), tg_str("3"));
    tg_remove_attribute(record, tg_str("c"));
    tg_set_attribute(record, tg_str("d"), tg_null());
    tg_add_attribute(record, tg_str("e"), tg_null());
}

static void event_time(tg_record *record) { tg_set_event_time(record, tg_now(record)); }
static void no_time(tg_record *record) { tg_set_event_time(record, TG_NO_TIME); }

// In another order than an answer has them.
static void all(tg_record *record) {
    tg_set_event_time(record, 5);
    tg_set_attribute(record, tg_str("t"), tg_str("2"));
    tg_set_header(record, tg_str("h"), tg_str("1"));
    tg_set_value(record, tg_str("v"));
    tg_set_key(record, tg_str("k"));
}

static void split(tg_record *record) {
    tg_bytes value = tg_value(record);
    unsigned part = 0;
    for (uint32_t begin = 0, at = 0; at <= value.length; at++) {
        if (at != value.length && value.at[at] != ',') continue;
        tg_piece(record, TG_MAIN);
        tg_set_value(record, tg_bytes_of(value.at ? value.at + begin : (const uint8_t *)"", at - begin));
        tg_set_header(record, tg_str("part"), tg_format("%u", part++));
        begin = at + 1;
    }
}

static void split_outputs(tg_record *record) {
    tg_piece(record, LEFT);
    tg_set_value(record, tg_str("l"));
    tg_piece(record, RIGHT);
    tg_set_value(record, tg_str("r"));
    tg_piece(record, TG_MAIN);
    tg_set_value(record, tg_str("m"));
}

static void split_into(tg_record *record, unsigned pieces) {
    while (pieces-- != 0) tg_piece(record, TG_MAIN);
}
static void split_many(tg_record *record) { split_into(record, 4095); }
static void split_too_many(tg_record *record) { split_into(record, 4096); }

static void route(tg_record *record) { tg_route_to(record, tg_header(record, "to")); }

static void route_changed(tg_record *record) {
    tg_set_value(record, tg_str("changed"));
    tg_route(record, LEFT);
    tg_remove_header(record, tg_str("do"));
}

static void last_output(tg_record *record) { tg_route(record, OUT_16); }

static void retry(tg_record *record) {
    tg_bytes text;
    if (tg_text(record, &text)) tg_retry(record, 1500, text);
}

static void dead_letter(tg_record *record) {
    tg_bytes text;
    if (tg_text(record, &text)) tg_dead_letter(record, text);
}

static void throw_boom(tg_record *record) { tg_throw(record, "boom"); }

static void fail_transient(tg_record *record) { tg_fail(record, TG_TRANSIENT, "asked-for", "the record asks for it"); }
static void fail_permanent(tg_record *record) { tg_fail(record, TG_PERMANENT, "asked-for", "the record asks for it"); }
static void fail_configuration(tg_record *record) {
    tg_fail(record, TG_BAD_CONFIGURATION, "asked-for", "the record asks for it");
}

static void spin(tg_record *record) {
    for (volatile const tg_record *one = record; one; one = record) {
    }
}

static void grow(tg_record *record) {
    for (;;) {
        size_t size = 1 << 20;
        memset(tg_memory(size), (int)record->index + 1, size);
    }
}

static int descend(volatile int *above) {
    volatile int here[64] = {*above + 1};
    // Its stack ends long before it counts so far.
    return here[0] == 0 ? 0 : descend(here) + here[0];
}
static void deep(tg_record *record) {
    volatile int depth = (int)record->index;
    tg_drop(record);
    if (descend(&depth) == 0) tg_pass(record);
}

static void trap(tg_record *record) {
    (void)record;
    abort();
}

static void log_lines(tg_record *record) {
    (void)record;
    tg_log(TG_TRACE, "a trace line");
    tg_log(TG_DEBUG, "a debug line");
    tg_log(TG_INFO, "an info line");
    tg_log(TG_WARN, "a warn line");
    tg_log(TG_ERROR, "an error line");
}

static void measure(tg_record *record) {
    tg_bytes kind = tg_str("short");
    double length = tg_value(record).length;
    tg_count(record, SEEN, 1);
    tg_count_for(record, WORDS, 2, &kind, 1);
    tg_measure(record, LAST_BYTES, length);
    tg_measure(record, VALUE_BYTES, length);
}
static void measure_and_drop(tg_record *record) {
    measure(record);
    tg_drop(record);
}
static void measure_and_throw(tg_record *record) {
    tg_count(record, SEEN, 1);
    tg_throw(record, "boom");
}

static void json(tg_record *record) {
    tg_json value;
    tg_bytes name;
    if (!tg_json_value(record, &value)) return;
    if (tg_json_string(tg_json_member(value, "name"), &name)) tg_set_value(record, name);
    else tg_dead_letter(record, tg_str("value is not the expected JSON: it has no text `name`"));
}

static void draw(tg_record *record) {
    tg_random random = tg_random_of(record);
    unsigned long long first = tg_random_bits(&random), second = tg_random_bits(&random);
    tg_set_value(record, tg_format("%llu,%llu", first, second));
}

static void write_text_or_null(tg_writer *json, tg_bytes text) {
    if (tg_is_null(text)) tg_write_text(json, "null");
    else tg_write_json(json, text);
}

static void show_config(tg_record *record) {
    tg_writer json = {0};
    tg_write_format(&json, "{\"mode\":\"%s\",\"limit\":%lld,\"words\":[", modes[settings.mode],
                    (long long)settings.limit);
    for (size_t at = 0; at < settings.words.count; at++) {
        if (at != 0) tg_write_text(&json, ",");
        tg_write_json(&json, tg_texts(settings.words)[at]);
    }
    tg_write_text(&json, "],\"ratio\":");
    tg_write_number(&json, settings.ratio);
    tg_write_text(&json, ",\"label\":");
    write_text_or_null(&json, settings.label);
    tg_write_text(&json, ",\"nested\":");
    if (settings.nested) {
        tg_write_text(&json, "{\"name\":");
        tg_write_json(&json, settings.nested->name);
        tg_write_format(&json, ",\"on\":%s}", settings.nested->on ? "true" : "false");
    } else {
        tg_write_text(&json, "null");
    }
    tg_write_text(&json, "}");
    tg_set_value(record, tg_written(&json));
}

static void count_headers(tg_record *record) { tg_set_value(record, tg_format("%u", tg_header_count(record))); }
static void show_clock(tg_record *record) { tg_set_value(record, tg_format("%lld", (long long)tg_now(record))); }

static const struct {
    const char *name;
    void (*run)(tg_record *record);
} behaviours[] = {
    {"pass", tg_pass},
    {"drop", tg_drop},
    {"echo", echo},
    {"upper", upper},
    {"show", show},
    {"set-key", set_key},
    {"null-key", null_key},
    {"null-value", null_value},
    {"empty-value", empty_value},
    {"headers", headers},
    {"attributes", attributes},
    {"time", event_time},
    {"no-time", no_time},
    {"same", tg_replace},
    {"all", all},
    {"split", split},
    {"split-outputs", split_outputs},
    {"split-none", tg_split},
    {"split-many", split_many},
    {"split-too-many", split_too_many},
    {"route", route},
    {"route-changed", route_changed},
    {"last-output", last_output},
    {"retry", retry},
    {"dead-letter", dead_letter},
    {"throw", throw_boom},
    {"fail-transient", fail_transient},
    {"fail-permanent", fail_permanent},
    {"fail-configuration", fail_configuration},
    {"spin", spin},
    {"grow", grow},
    {"deep", deep},
    {"trap", trap},
    {"log", log_lines},
    {"metrics", measure},
    {"metrics-drop", measure_and_drop},
    {"metrics-throw", measure_and_throw},
    {"json", json},
    {"random", draw},
    {"config", show_config},
    {"headers-count", count_headers},
    {"clock", show_clock},
};

static void process(tg_record *record) {
    tg_bytes wanted = tg_header(record, "do");
    if (tg_is_null(wanted)) return;
    for (size_t one = 0; one < sizeof behaviours / sizeof *behaviours; one++) {
        if (!tg_equals(wanted, behaviours[one].name)) continue;
        behaviours[one].run(record);
        return;
    }
    tg_dead_letter_of(record, "unknown behaviour \"%.*s\"", TG_SHOW(wanted));
}

TG_OPERATOR(.name = "conformance", .version = "1.0.0",
            .reads = TG_READS_KEY | TG_READS_VALUE | TG_READS_HEADERS | TG_READS_ATTRIBUTES, .config = &table,
            .settings = &settings, .outputs = outputs, .metrics = metrics, .start = start, .process = process);
