// Reads cases: `cases.schema.json` beside the SDK says what they hold.

#include "testing.h"

// The case that runs, and whether it can be read.
static const char *file;
static tg_bytes case_name;
static bool is_failed;

static void fail(const char *format, ...) TG_PRINTF(1, 2);
static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tg_bytes why = tg_formatted(format, arguments);
    va_end(arguments);
    tg_test_failed("%s: case \"%.*s\": %.*s", file, TG_SHOW(case_name), TG_SHOW(why));
    is_failed = true;
}

static void *room(size_t count, size_t size) {
    void *at = tg_arena_take(&tg_test_case_memory, count * size);
    memset(at, 0, count * size);
    return at;
}

static uint32_t count_of(tg_json json) {
    uint32_t count = 0;
    tg_json_items items = tg_json_items_of(json);
    for (tg_json value; tg_json_next(&items, NULL, &value);) count++;
    return count;
}

static tg_json entry_of(tg_json json, uint32_t index) {
    tg_json_items items = tg_json_items_of(json);
    tg_json value, none = {NULL, NULL};
    while (tg_json_next(&items, NULL, &value)) {
        if (index-- == 0) return value;
    }
    return none;
}

static tg_bytes text_of(tg_json json) {
    tg_bytes text = tg_null();
    if (tg_json_string(json, &text)) return tg_copy_into(&tg_test_case_memory, text);
    fail("expected text, found %.*s", TG_SHOW(tg_json_source(json)));
    return tg_str("");
}

static int64_t integer_of(tg_json json) {
    int64_t number = 0;
    if (!tg_json_integer(json, &number)) fail("expected a whole number, found %.*s", TG_SHOW(tg_json_source(json)));
    return number;
}

// A whole number of 64 bits without a sign, or `otherwise` if it is not there.
static uint64_t unsigned_of(tg_json json, uint64_t otherwise) {
    if (!json.at) return otherwise;
    uint64_t number = 0;
    for (const uint8_t *at = json.at; at < json.end; at++) {
        if (*at < '0' || *at > '9' || number > (UINT64_MAX - 9) / 10) {
            fail("expected a whole number from 0, found %.*s", TG_SHOW(tg_json_source(json)));
            return 0;
        }
        number = number * 10 + (uint64_t)(*at - '0');
    }
    return number;
}

static tg_bytes from_base64(tg_bytes text) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *begin = (uint8_t *)room(text.length + 1, 1), *to = begin;
    uint32_t bits = 0, count = 0;
    while (text.length != 0 && text.at[text.length - 1] == '=') text.length--;
    for (uint32_t at = 0; at < text.length; at++) {
        const char *digit = text.at[at] ? strchr(DIGITS, text.at[at]) : NULL;
        if (!digit) {
            fail("\"%.*s\" is not base64", TG_SHOW(text));
            break;
        }
        bits = bits << 6 | (uint32_t)(digit - DIGITS);
        if (++count % 4 != 1) *to++ = (uint8_t)(bits >> (6 - 2 * ((count - 1) % 4)));
    }
    return tg_bytes_of(begin, (size_t)(to - begin));
}

// JSON without spaces between its parts.
static tg_bytes compact(tg_json json) {
    tg_writer writer = {NULL, 0, 0};
    for (const uint8_t *at = json.at; at < json.end;) {
        if (*at == '"') {
            tg_json string = {at, at + 1};
            while (*string.end != '"') string.end += *string.end == '\\' ? 2 : 1;
            string.end++;
            tg_bytes text;
            tg_json_string(string, &text);
            tg_write_json(&writer, text);
            at = string.end;
            continue;
        }
        if (*at > ' ') tg_write(&writer, tg_bytes_of(at, 1));
        at++;
    }
    return tg_copy_into(&tg_test_case_memory, tg_written(&writer));
}

static tg_bytes bytes_of(tg_json json) {
    tg_json_kind kind = tg_json_kind_of(json);
    if (kind == TG_JSON_NONE || kind == TG_JSON_NULL) return tg_null();
    if (kind == TG_JSON_STRING) return text_of(json);
    tg_json base64 = tg_json_member(json, "base64"), repeat = tg_json_member(json, "repeat");
    tg_json value = tg_json_member(json, "json");
    if (base64.at) return from_base64(text_of(base64));
    if (value.at) return compact(value);
    if (!repeat.at) {
        fail("expected bytes, found %.*s", TG_SHOW(tg_json_source(json)));
        return tg_null();
    }
    tg_bytes text = text_of(repeat);
    size_t times = (size_t)unsigned_of(tg_json_member(json, "times"), 0);
    uint8_t *at = (uint8_t *)room(times, text.length);
    for (size_t time = 0; time < times; time++) tg_copy(at + time * text.length, text);
    return tg_bytes_of(at, times * text.length);
}

// Headers or attributes: a list of pairs, an object, or one pair many times.
static const tg_pair *pairs_of(tg_json json, uint32_t *count) {
    tg_json repeat = tg_json_member(json, "repeat");
    bool is_object = tg_json_kind_of(json) == TG_JSON_OBJECT;
    tg_json_items items = tg_json_items_of(json);
    *count = 0;
    if (is_object && tg_json_kind_of(repeat) == TG_JSON_ARRAY) {
        *count = (uint32_t)unsigned_of(tg_json_member(json, "times"), 0);
        tg_pair pair = {text_of(entry_of(repeat, 0)), bytes_of(entry_of(repeat, 1))};
        tg_pair *pairs = (tg_pair *)room(*count, sizeof *pairs);
        for (uint32_t index = 0; index < *count; index++) pairs[index] = pair;
        return pairs;
    }
    tg_pair *pairs = (tg_pair *)room(count_of(json), sizeof *pairs);
    for (tg_json name, value; tg_json_next(&items, &name, &value); ++*count) {
        pairs[*count].name = text_of(is_object ? name : entry_of(value, 0));
        pairs[*count].value = bytes_of(is_object ? value : entry_of(value, 1));
    }
    return pairs;
}

static tg_test_record record_of(tg_json json, uint32_t index) {
    tg_test_record record = {tg_null(), tg_null(), NULL, 0, NULL, 0, NULL, NULL};
    record.key = bytes_of(tg_json_member(json, "key"));
    record.value = bytes_of(tg_json_member(json, "value"));
    record.headers = pairs_of(tg_json_member(json, "headers"), &record.header_count);
    record.attributes = pairs_of(tg_json_member(json, "attributes"), &record.attribute_count);
    tg_json time = tg_json_member(json, "event-time"), id = tg_json_member(json, "id");
    if (time.at && tg_json_kind_of(time) != TG_JSON_NULL) {
        int64_t *at = (int64_t *)room(1, sizeof *at);
        *at = integer_of(time);
        record.event_time = at;
    }
    if (id.at) {
        tg_id *at = (tg_id *)room(1, sizeof *at);
        tg_json origin = tg_json_member(id, "origin");
        at->origin = origin.at && tg_equals(text_of(origin), "timer") ? TG_ORIGIN_TIMER : TG_ORIGIN_SOURCE;
        at->source = (uint16_t)unsigned_of(tg_json_member(id, "source"), 0);
        at->partition = (uint32_t)unsigned_of(tg_json_member(id, "partition"), 0);
        at->offset = unsigned_of(tg_json_member(id, "offset"), index);
        at->emit = unsigned_of(tg_json_member(id, "emit"), 0);
        record.id = at;
    }
    return record;
}

static const char *const OPERATIONS[] = {"set", "add", "remove"};

static const tg_test_change *changes_of(tg_json json, uint32_t *count) {
    tg_test_change *changes = (tg_test_change *)room(count_of(json), sizeof *changes);
    tg_json_items items = tg_json_items_of(json);
    *count = 0;
    for (tg_json change; tg_json_next(&items, NULL, &change); ++*count) {
        tg_bytes operation = text_of(entry_of(change, 0));
        while (changes[*count].operation < 3 && !tg_equals(operation, OPERATIONS[changes[*count].operation])) {
            changes[*count].operation++;
        }
        if (changes[*count].operation == 3)
            fail("a change is \"%.*s\", expected set, add or remove", TG_SHOW(operation));
        changes[*count].name = text_of(entry_of(change, 1));
        changes[*count].value = bytes_of(entry_of(change, 2));
    }
    return changes;
}

static tg_test_patch patch_of(tg_json json) {
    tg_test_patch patch;
    memset(&patch, 0, sizeof patch);
    tg_json to = tg_json_member(json, "to"), key = tg_json_member(json, "key"), value = tg_json_member(json, "value");
    tg_json time = tg_json_member(json, "event-time");
    if (to.at) patch.output = tg_output_of(text_of(to));
    if (patch.output == TG_NO_OUTPUT) fail("there is no output %.*s", TG_SHOW(tg_json_source(to)));
    patch.has_key = key.at;
    patch.key = bytes_of(key);
    patch.has_value = value.at;
    patch.value = bytes_of(value);
    patch.headers = changes_of(tg_json_member(json, "headers"), &patch.header_count);
    patch.attributes = changes_of(tg_json_member(json, "attributes"), &patch.attribute_count);
    patch.has_event_time = time.at;
    if (time.at) patch.event_time = tg_json_kind_of(time) == TG_JSON_NULL ? TG_NO_TIME : integer_of(time);
    return patch;
}

static bool is_empty(const tg_test_patch *patch) {
    return !patch->has_key && !patch->has_value && !patch->has_event_time && patch->header_count == 0 &&
           patch->attribute_count == 0;
}

// An outcome as a case has it, without its text.
static tg_test_outcome outcome_of(tg_json json, tg_json *text) {
    static const char *const NAMES[] = {"pass", "drop", "replace", "split", "route", "retry", "dead-letter", "raised"};
    tg_test_outcome outcome;
    memset(&outcome, 0, sizeof outcome);
    text->at = NULL;
    bool is_word = tg_json_kind_of(json) == TG_JSON_STRING;
    tg_json inner = {NULL, NULL};
    int kind = 0;
    for (; kind < 8; kind++) {
        inner = tg_json_member(json, NAMES[kind]);
        if (inner.at || (is_word && tg_equals(text_of(json), NAMES[kind]))) break;
    }
    // What an exception becomes is a dead letter here.
    outcome.action = kind == 7 ? TG_DEAD_LETTERED : (tg_test_action)kind;
    tg_json repeat = tg_json_member(inner, "repeat");
    if (kind == 8) fail("an outcome is %.*s", TG_SHOW(tg_json_source(json)));
    if (kind == TG_REPLACED || kind == TG_ROUTED) {
        tg_test_patch *patch = (tg_test_patch *)room(1, sizeof *patch);
        *patch = patch_of(inner);
        outcome.patches = patch;
        outcome.patch_count = 1;
    } else if (kind == TG_SPLIT_UP) {
        uint32_t count = repeat.at ? (uint32_t)unsigned_of(tg_json_member(inner, "times"), 0) : count_of(inner);
        tg_test_patch *patches = (tg_test_patch *)room(count, sizeof *patches);
        for (uint32_t piece = 0; piece < count; piece++)
            patches[piece] = patch_of(repeat.at ? repeat : entry_of(inner, piece));
        outcome.patches = patches;
        outcome.patch_count = count;
    } else if (kind == TG_RETRIED) {
        outcome.retry_milliseconds = (uint32_t)unsigned_of(tg_json_member(inner, "after-ms"), 0);
        *text = tg_json_member(inner, "reason");
    } else if (kind >= TG_DEAD_LETTERED) {
        *text = inner;
    }
    return outcome;
}
