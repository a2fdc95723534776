// The configuration: a schema is made from its table, and its struct is filled from JSON.

#include "inside.h"

// Most bytes of a value that an error shows.
enum { SHOWN = 200 };

// Where a value stands: a key of a table, or an entry of a list, within another place.
typedef struct place {
    const struct place *within;
    tg_bytes key;
    size_t entry;
} place;

static void write_place(tg_writer *writer, const place *place) {
    if (place->within) write_place(writer, place->within);
    if (place->key.at) {
        if (place->within) tg_write_text(writer, ".");
        tg_write(writer, place->key);
    } else {
        tg_write_format(writer, "[%zu]", place->entry);
    }
}

// What is wrong with what stands at a place: always false.
static bool mistake(const place *place, const char *format, ...) TG_PRINTF(2, 3);
static bool mistake(const place *place, const char *format, ...) {
    tg_writer message = {NULL, 0, 0};
    tg_write_text(&message, "config ");
    if (place) {
        tg_write_text(&message, "key `");
        write_place(&message, place);
        tg_write_text(&message, "` ");
    }
    va_list arguments;
    va_start(arguments, format);
    tg_write_formatted(&message, format, arguments);
    va_end(arguments);
    return tg_refuse(TG_BAD_CONFIGURATION, "bad-config", "%.*s", TG_SHOW(tg_written(&message)));
}

// The value at a place is another than was expected: always false.
static bool is_wrong(const place *place, tg_json json, const char *expected) {
    tg_bytes shown = tg_json_source(json);
    bool is_cut = shown.length > SHOWN;
    if (is_cut) {
        shown.length = SHOWN;
        shown.length = tg_utf8_until(shown);
    }
    return mistake(place, "is %.*s%s, expected %s", TG_SHOW(shown), is_cut ? " ..." : "", expected);
}

static size_t size_of(const tg_field *field) {
    switch (field->kind) {
    case TG_KIND_BOOLEAN: return sizeof(bool);
    case TG_KIND_INTEGER: return sizeof(int64_t);
    case TG_KIND_NUMBER: return sizeof(double);
    case TG_KIND_CHOICE: return sizeof(int);
    case TG_KIND_LIST: return sizeof(tg_list);
    case TG_KIND_TABLE: return field->table->size;
    default: return sizeof(tg_bytes);
    }
}

static bool has_minimum(const tg_field *field) {
    return (field->minimum != 0 || field->maximum != 0) && field->minimum != INT64_MIN;
}
static bool has_maximum(const tg_field *field) {
    return (field->minimum != 0 || field->maximum != 0) && field->maximum >= field->minimum &&
           field->maximum != INT64_MAX;
}
static bool has_range(const tg_field *field) { return field->least != 0 || field->most != 0; }

static bool is_long_enough(const tg_field *field, const place *place, int64_t length, const char *unit) {
    if (has_minimum(field) && length < field->minimum) {
        return mistake(place, "has %lld %s, expected at least %lld", (long long)length, unit,
                       (long long)field->minimum);
    }
    if (has_maximum(field) && length > field->maximum) {
        return mistake(place, "has %lld %s, expected at most %lld", (long long)length, unit, (long long)field->maximum);
    }
    return true;
}

static bool read_integer(const tg_field *field, tg_json json, const place *place, int64_t *to) {
    if (!tg_json_integer(json, to)) return is_wrong(place, json, "a whole number");
    char expected[48];
    bool is_low = has_minimum(field) && *to < field->minimum;
    if (!is_low && !(has_maximum(field) && *to > field->maximum)) return true;
    tg_bytes text =
        tg_format("at %s %lld%c", is_low ? "least" : "most", (long long)(is_low ? field->minimum : field->maximum), 0);
    memcpy(expected, text.at, text.length);
    return is_wrong(place, json, expected);
}

static bool read_number(const tg_field *field, tg_json json, const place *place, double *to) {
    if (!tg_json_number(json, to)) return is_wrong(place, json, "a number");
    if (!has_range(field) || (*to >= field->least && *to <= field->most)) return true;
    tg_writer expected = {NULL, 0, 0};
    tg_write_text(&expected, *to < field->least ? "at least " : "at most ");
    tg_write_number(&expected, *to < field->least ? field->least : field->most);
    tg_write(&expected, tg_bytes_of("", 1));
    return is_wrong(place, json, (const char *)expected.at);
}

static bool read_text(const tg_field *field, tg_json json, const place *place, tg_bytes *to) {
    tg_bytes text;
    if (!tg_json_string(json, &text)) return is_wrong(place, json, "text");
    int64_t characters = 0;
    for (uint32_t at = 0; at < text.length; at++) characters += (text.at[at] & 0xc0) != 0x80;
    if (!is_long_enough(field, place, characters, "characters")) return false;
    *to = tg_kept_copy(text);
    return true;
}

static bool read_choice(const tg_field *field, tg_json json, const place *place, int *to) {
    tg_bytes name;
    bool is_text = tg_json_string(json, &name);
    for (int choice = 0; is_text && field->choices[choice]; choice++) {
        if (!tg_equals(name, field->choices[choice])) continue;
        *to = choice;
        return true;
    }
    tg_writer expected = {NULL, 0, 0};
    tg_write_text(&expected, "one of ");
    for (int choice = 0; field->choices[choice]; choice++) {
        if (choice) tg_write_text(&expected, ", ");
        tg_write_json(&expected, tg_str(field->choices[choice]));
    }
    tg_write(&expected, tg_bytes_of("", 1));
    return is_wrong(place, json, (const char *)expected.at);
}

static bool read_value(const tg_field *field, tg_json json, const place *place, void *to);
static bool read_table(const tg_table *table, tg_json json, const place *place, void *to);

static bool read_list(const tg_field *field, tg_json json, const place *within, tg_list *to) {
    if (tg_json_kind_of(json) != TG_JSON_ARRAY) return is_wrong(within, json, "a list");
    size_t count = 0, size = size_of(field->item);
    tg_json_items items = tg_json_items_of(json);
    for (tg_json entry; tg_json_next(&items, NULL, &entry);) count++;
    if (!is_long_enough(field, within, (int64_t)count, "entries")) return false;
    if (count > SIZE_MAX / 2 / size) tg_end("there is no memory left for a list of the configuration");
    uint8_t *at = (uint8_t *)tg_keep(count * size);
    memset(at, 0, count * size);
    to->items = at;
    to->count = count;
    place here = {within, tg_null(), 0};
    items = tg_json_items_of(json);
    for (tg_json entry; tg_json_next(&items, NULL, &entry); here.entry++, at += size) {
        bool is_read = field->item->kind == TG_KIND_TABLE ? read_table(field->item->table, entry, &here, at)
                                                          : read_value(field->item, entry, &here, at);
        if (!is_read) return false;
    }
    return true;
}

static bool read_value(const tg_field *field, tg_json json, const place *place, void *to) {
    switch (field->kind) {
    case TG_KIND_BOOLEAN: return tg_json_boolean(json, (bool *)to) || is_wrong(place, json, "true or false");
    case TG_KIND_INTEGER: return read_integer(field, json, place, (int64_t *)to);
    case TG_KIND_NUMBER: return read_number(field, json, place, (double *)to);
    case TG_KIND_TEXT: return read_text(field, json, place, (tg_bytes *)to);
    case TG_KIND_CHOICE: return read_choice(field, json, place, (int *)to);
    case TG_KIND_LIST: return read_list(field, json, place, (tg_list *)to);
    case TG_KIND_TABLE: {
        void *inner = tg_keep(field->table->size);
        if (!read_table(field->table, json, place, inner)) return false;
        memcpy(to, &inner, sizeof inner);
        return true;
    }
    default: *(tg_bytes *)to = tg_kept_copy(tg_json_source(json)); return true;
    }
}

// Refuses keys that are unknown or there twice.
static bool are_keys_right(const tg_table *table, tg_json json, const place *within) {
    uint64_t seen[4] = {0};
    tg_json name, value;
    for (tg_json_items items = tg_json_items_of(json); tg_json_next(&items, &name, &value);) {
        place here = {within, tg_null(), 0};
        tg_json_string(name, &here.key);
        size_t index = 0;
        while (table->fields[index].name && !tg_equals(here.key, table->fields[index].name)) index++;
        if (!table->fields[index].name) {
            tg_writer known = {NULL, 0, 0};
            for (size_t one = 0; table->fields[one].name; one++) {
                tg_write_format(&known, "%s`%s`", one ? ", " : "", table->fields[one].name);
            }
            tg_bytes names = known.at ? tg_written(&known) : tg_str("no key at all");
            return mistake(&here, "is unknown, expected %.*s", TG_SHOW(names));
        }
        if (index < 256) {
            uint64_t bit = UINT64_C(1) << index % 64;
            if (seen[index / 64] & bit) return mistake(&here, "is there twice");
            seen[index / 64] |= bit;
        }
    }
    return true;
}

static bool read_default(const tg_field *field, const place *place, void *to) {
    tg_json json;
    uint32_t at;
    const char *wrong = tg_json_read(tg_str(field->fallback), &json, &at);
    if (wrong) return mistake(place, "has a default that is not JSON: %s at byte %u", wrong, at);
    if (read_value(field, json, place, to)) return true;
    return tg_refuse(TG_BAD_CONFIGURATION, "bad-config", "%.*s (this is its default)",
                     TG_SHOW(tg_running.failure.message));
}

static bool read_table(const tg_table *table, tg_json json, const place *within, void *to) {
    if (tg_json_kind_of(json) != TG_JSON_OBJECT) return is_wrong(within, json, "a table");
    if (!are_keys_right(table, json, within)) return false;
    memset(to, 0, table->size);
    for (const tg_field *field = table->fields; field->name; field++) {
        place here = {within, tg_str(field->name), 0};
        void *member = (uint8_t *)to + field->offset;
        tg_json value = tg_json_member(json, field->name);
        bool is_read = true;
        if (value.at) {
            is_read = read_value(field, value, &here, member);
        } else if (field->fallback) {
            is_read = read_default(field, &here, member);
        } else if (!field->optional) {
            is_read = mistake(&here, "is missing");
        }
        if (!is_read) return false;
    }
    return true;
}

static const tg_field NO_FIELDS[] = {TG_END};
static const tg_table NO_CONFIG = {NULL, 0, NO_FIELDS};

bool tg_configure(const tg_operator *with, tg_bytes text) {
    tg_json json;
    uint32_t at;
    if (text.length == 0) text = tg_str("{}");
    const char *wrong = tg_json_read(text, &json, &at);
    if (wrong) return mistake(NULL, "is not JSON: %s at byte %u", wrong, at);
    if (tg_json_kind_of(json) == TG_JSON_NULL) tg_json_read(tg_str("{}"), &json, &at);
    const tg_table *table = with->config ? with->config : &NO_CONFIG;
    if (table->size != 0 && !with->settings) {
        return tg_refuse(TG_PERMANENT, "no-settings", "the operator has .config and no .settings, where it is written");
    }
    uint8_t nothing;
    return read_table(table, json, NULL, with->settings ? with->settings : &nothing);
}

static void write_field(tg_writer *to, const tg_field *field);

static void write_member(tg_writer *to, const char *name, int64_t number) {
    tg_write_format(to, ",\"%s\":%lld", name, (long long)number);
}

static void write_table(tg_writer *to, const tg_table *table) {
    tg_write_text(to, "\"type\":\"object\",\"properties\":{");
    for (const tg_field *field = table->fields; field->name; field++) {
        if (field != table->fields) tg_write_text(to, ",");
        tg_write_json(to, tg_str(field->name));
        tg_write_text(to, ":");
        write_field(to, field);
    }
    tg_write_text(to, "},\"required\":[");
    bool is_first = true;
    for (const tg_field *field = table->fields; field->name; field++) {
        if (field->fallback || field->optional) continue;
        if (!is_first) tg_write_text(to, ",");
        is_first = false;
        tg_write_json(to, tg_str(field->name));
    }
    tg_write_text(to, "],\"additionalProperties\":false");
}

static void write_help(tg_writer *to, const char *help) {
    if (!help) return;
    tg_write_text(to, ",\"description\":");
    tg_write_json(to, tg_str(help));
}

// The schema of what a field has, without its braces.
static void write_kind(tg_writer *to, const tg_field *field) {
    static const char *const TYPES[] = {NULL, "boolean", "integer", "number", "string", NULL, "array", NULL, NULL};
    static const char *const SHORTEST[] = {NULL, NULL, "minimum", NULL, "minLength", NULL, "minItems", NULL, NULL};
    static const char *const LONGEST[] = {NULL, NULL, "maximum", NULL, "maxLength", NULL, "maxItems", NULL, NULL};
    if (TYPES[field->kind]) tg_write_format(to, "\"type\":\"%s\"", TYPES[field->kind]);
    if (SHORTEST[field->kind] && has_minimum(field)) write_member(to, SHORTEST[field->kind], field->minimum);
    if (LONGEST[field->kind] && has_maximum(field)) write_member(to, LONGEST[field->kind], field->maximum);
    switch (field->kind) {
    case TG_KIND_NUMBER:
        if (!has_range(field)) return;
        tg_write_text(to, ",\"minimum\":");
        tg_write_number(to, field->least);
        tg_write_text(to, ",\"maximum\":");
        tg_write_number(to, field->most);
        return;
    case TG_KIND_CHOICE:
        tg_write_text(to, "\"enum\":[");
        for (int choice = 0; field->choices[choice]; choice++) {
            if (choice) tg_write_text(to, ",");
            tg_write_json(to, tg_str(field->choices[choice]));
        }
        tg_write_text(to, "]");
        return;
    case TG_KIND_LIST:
        tg_write_text(to, ",\"items\":");
        write_field(to, field->item);
        return;
    case TG_KIND_TABLE: write_table(to, field->table); return;
    // Any value at all is right.
    case TG_KIND_ANY: tg_write_text(to, "\"$comment\":\"any value\""); return;
    default: return;
    }
}

static void write_field(tg_writer *to, const tg_field *field) {
    tg_write_text(to, "{");
    write_kind(to, field);
    write_help(to, field->help ? field->help : field->kind == TG_KIND_TABLE ? field->table->help : NULL);
    if (field->fallback) tg_write_format(to, ",\"default\":%s", field->fallback);
    tg_write_text(to, "}");
}

tg_bytes tg_schema(const tg_table *table) {
    if (!table) table = &NO_CONFIG;
    tg_writer to = {NULL, 0, 0};
    tg_write_text(&to, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",");
    write_table(&to, table);
    write_help(&to, table->help);
    tg_write_text(&to, "}");
    return tg_kept_copy(tg_written(&to));
}
