// Runs files of cases, which are the same for all languages: `cases.schema.json` beside the SDK says what they hold.

#include "testing.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

// Most bytes of an outcome that a difference shows.
enum { SHOWN = 300 };

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
        if (changes[*count].operation == 3) fail("a change is \"%.*s\", expected set, add or remove", TG_SHOW(operation));
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
        for (uint32_t piece = 0; piece < count; piece++) patches[piece] = patch_of(repeat.at ? repeat : entry_of(inner, piece));
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

static void write_bytes(tg_writer *to, tg_bytes bytes) {
    if (!bytes.at) {
        tg_write_text(to, "null");
    } else if (tg_is_utf8(bytes)) {
        tg_write_json(to, bytes);
    } else {
        tg_write_text(to, "{\"hex\": \"");
        tg_write_hex(to, bytes);
        tg_write_text(to, "\"}");
    }
}

static void write_changes(tg_writer *to, const char *what, const tg_test_change *changes, uint32_t count) {
    if (count == 0) return;
    tg_write_format(to, "\"%s\": [", what);
    for (uint32_t change = 0; change < count; change++) {
        tg_write_format(to, "%s[\"%s\", ", change ? ", " : "", OPERATIONS[changes[change].operation]);
        write_bytes(to, changes[change].name);
        if (changes[change].operation != TG_CHANGE_REMOVE) {
            tg_write_text(to, ", ");
            write_bytes(to, changes[change].value);
        }
        tg_write_text(to, "]");
    }
    tg_write_text(to, "], ");
}

static void write_patch(tg_writer *to, const tg_test_patch *patch) {
    tg_write_text(to, "{");
    if (patch->output) {
        tg_write_text(to, "\"to\": ");
        write_bytes(to, tg_running.outputs[patch->output - 1]);
        tg_write_text(to, ", ");
    }
    if (patch->has_key) {
        tg_write_text(to, "\"key\": ");
        write_bytes(to, patch->key);
        tg_write_text(to, ", ");
    }
    if (patch->has_value) {
        tg_write_text(to, "\"value\": ");
        write_bytes(to, patch->value);
        tg_write_text(to, ", ");
    }
    write_changes(to, "headers", patch->headers, patch->header_count);
    write_changes(to, "attributes", patch->attributes, patch->attribute_count);
    if (patch->has_event_time && patch->event_time == TG_NO_TIME) {
        tg_write_text(to, "\"event-time\": null, ");
    } else if (patch->has_event_time) {
        tg_write_format(to, "\"event-time\": %lld, ", (long long)patch->event_time);
    }
    if (to->at[to->length - 1] == ' ') to->length -= 2;
    tg_write_text(to, "}");
}

// An outcome as cases have it, without its text.
static tg_bytes shown(const tg_test_outcome *outcome) {
    tg_writer to = {NULL, 0, 0};
    bool is_pass = outcome->action == TG_REPLACED && is_empty(outcome->patches);
    switch (is_pass ? TG_PASSED : outcome->action) {
    case TG_PASSED: return tg_str("\"pass\"");
    case TG_DROPPED: return tg_str("\"drop\"");
    case TG_REPLACED:
    case TG_ROUTED:
        tg_write_format(&to, "{\"%s\": ", outcome->action == TG_REPLACED ? "replace" : "route");
        write_patch(&to, outcome->patches);
        break;
    case TG_SPLIT_UP:
        tg_write_text(&to, "{\"split\": [");
        for (uint32_t piece = 0; piece < outcome->patch_count; piece++) {
            if (piece) tg_write_text(&to, ", ");
            write_patch(&to, &outcome->patches[piece]);
        }
        tg_write_text(&to, "]");
        break;
    case TG_RETRIED: tg_write_format(&to, "{\"retry\": {\"after-ms\": %u}", outcome->retry_milliseconds); break;
    case TG_DEAD_LETTERED: return tg_str("a dead letter");
    }
    tg_write_text(&to, "}");
    return tg_written(&to);
}

// As much of two texts as shows their first difference.
static void cut(tg_bytes *one, tg_bytes *other) {
    uint32_t same = 0;
    while (same < one->length && same < other->length && one->at[same] == other->at[same]) same++;
    uint32_t skipped = same > SHOWN / 2 ? same - SHOWN / 2 : 0;
    tg_bytes *both[] = {one, other};
    for (int side = 0; side < 2; side++) {
        both[side]->at += skipped;
        both[side]->length -= skipped;
        if (both[side]->length > SHOWN) both[side]->length = SHOWN;
    }
}

// Whether a text is the one expected, or has the parts that it is expected to have.
static bool is_text(tg_json expected, tg_bytes found) {
    tg_bytes whole;
    if (tg_json_string(expected, &whole)) return tg_same(whole, found);
    tg_json_items parts = tg_json_items_of(tg_json_member(expected, "contains"));
    for (tg_json part; tg_json_next(&parts, NULL, &part);) {
        if (!tg_json_string(part, &whole)) return false;
        bool is_there = false;
        for (uint32_t at = 0; !is_there && at + whole.length <= found.length; at++) {
            is_there = memcmp(found.at + at, whole.at, whole.length) == 0;
        }
        if (!is_there) return false;
    }
    return true;
}

static void compare_outcomes(tg_json expected, const tg_test_outcome *outcomes, uint32_t count) {
    if (count_of(expected) != count) {
        fail("there are %u outcomes for %u records", count_of(expected), count);
        return;
    }
    tg_json_items items = tg_json_items_of(expected);
    tg_json one, text;
    for (uint32_t record = 0; tg_json_next(&items, NULL, &one); record++) {
        tg_test_outcome wanted = outcome_of(one, &text);
        tg_bytes reason = tg_as_text(outcomes[record].reason), said = shown(&wanted), came = shown(&outcomes[record]);
        if (!tg_same(said, came)) {
            cut(&said, &came);
            const char *before = outcomes[record].action == TG_DEAD_LETTERED ? ": " : "";
            fail("record %u: expected %.*s, came %.*s%s%.*s", record, TG_SHOW(said), TG_SHOW(came), before,
                 TG_SHOW(reason));
        } else if (text.at && !is_text(text, reason)) {
            fail("record %u: expected the reason %.*s, came %.*s", record, TG_SHOW(tg_json_source(text)), TG_SHOW(reason));
        }
    }
}

static void compare_failure(tg_json expected) {
    static const char *const CLASSES[] = {"transient", "permanent", "bad-configuration"};
    tg_json wanted = tg_json_member(expected, "class"), code = tg_json_member(expected, "code");
    tg_json message = tg_json_member(expected, "message");
    if ((wanted.at && !tg_equals(text_of(wanted), CLASSES[tg_test_failure_class()])) ||
        (code.at && !tg_equals(text_of(code), tg_test_failure_code())) ||
        (message.at && !is_text(message, tg_test_failure()))) {
        fail("expected the failure %.*s, came %s, %s: %.*s", TG_SHOW(tg_json_source(expected)),
             CLASSES[tg_test_failure_class()], tg_test_failure_code(), TG_SHOW(tg_test_failure()));
    }
}

static void compare_log(tg_json expected) {
    static const char *const LEVELS[] = {"trace", "debug", "info", "warn", "error"};
    uint32_t count, index = 0;
    const tg_test_line *lines = tg_test_log(&count);
    tg_json_items items = tg_json_items_of(expected);
    for (tg_json line; tg_json_next(&items, NULL, &line); index++) {
        if (index >= count) continue;
        if (!tg_equals(text_of(entry_of(line, 0)), LEVELS[lines[index].level]) ||
            !is_text(entry_of(line, 1), lines[index].text)) {
            fail("line %u of the log: expected %.*s, came %s: %.*s", index, TG_SHOW(tg_json_source(line)),
                 LEVELS[lines[index].level], TG_SHOW(lines[index].text));
        }
    }
    if (index != count) fail("expected %u lines of the log, came %u", index, count);
}

// Whether a series is the one of a name and labels.
static bool is_series(const tg_test_series *series, tg_json expected) {
    const tg_metric *metric = &tg_running.metrics[series->metric];
    if (!tg_equals(text_of(tg_json_member(expected, "name")), metric->name)) return false;
    tg_json labels = tg_json_member(expected, "labels");
    if (count_of(labels) != series->label_count) return false;
    for (uint32_t label = 0; label < series->label_count; label++) {
        tg_json value = tg_json_member(labels, metric->labels[label]);
        if (!value.at || !tg_same(text_of(value), series->labels[label])) return false;
    }
    return true;
}

static bool has_value(const tg_test_series *series, tg_json expected) {
    tg_metric_kind kind = tg_running.metrics[series->metric].kind;
    double number, count, sum;
    if (kind == TG_HISTOGRAM) {
        return tg_json_number(tg_json_member(expected, "count"), &count) &&
               tg_json_number(tg_json_member(expected, "sum"), &sum) && count == (double)series->count &&
               sum == series->sum;
    }
    return tg_json_number(expected, &number) && number == (kind == TG_COUNTER ? series->sum : series->last);
}

static void compare_metrics(tg_json expected) {
    uint32_t count;
    const tg_test_series *series = tg_test_measured(&count);
    if (count_of(expected) != count) fail("expected %u measured series, came %u", count_of(expected), count);
    tg_json_items items = tg_json_items_of(expected);
    for (tg_json one; tg_json_next(&items, NULL, &one);) {
        uint32_t index = 0;
        while (index < count && !is_series(&series[index], one)) index++;
        if (index == count) {
            fail("expected the metric %.*s, it was not measured", TG_SHOW(tg_json_source(one)));
        } else if (!has_value(&series[index], tg_json_member(one, "value"))) {
            tg_writer came = {NULL, 0, 0};
            tg_write_number(&came, series[index].sum);
            fail("expected the metric %.*s, came %llu measurements, their sum is %.*s", TG_SHOW(tg_json_source(one)),
                 (unsigned long long)series[index].count, TG_SHOW(tg_written(&came)));
        }
    }
}

static void set_seed(tg_json json) {
    uint8_t seed[17] = "a seed for tests";
    tg_bytes digits = json.at ? text_of(json) : tg_null();
    for (uint32_t at = 0; digits.at && at < 32; at++) {
        const char *hex = "0123456789abcdef", *digit = at < digits.length ? strchr(hex, digits.at[at]) : NULL;
        if (!digit || digits.length != 32) {
            fail("the seed is not 32 hexadecimal digits");
            return;
        }
        uint8_t half = (uint8_t)(digit - hex);
        seed[at / 2] = at % 2 ? (uint8_t)(seed[at / 2] | half) : (uint8_t)(half << 4);
    }
    tg_test_set_seed(seed);
}

static void run_case(tg_json json, tg_json usual_config) {
    tg_json config = tg_json_member(json, "config"), refused = tg_json_member(json, "refused");
    tg_json clock = tg_json_member(json, "clock"), failure = tg_json_member(json, "failure");
    tg_json log = tg_json_member(json, "log"), metrics = tg_json_member(json, "metrics");
    if (!config.at) config = usual_config;
    set_seed(tg_json_member(json, "seed"));
    tg_test_set_clock(clock.at ? integer_of(clock) : INT64_C(1700000000000000));
    tg_bytes source = config.at ? tg_json_source(config) : tg_str("{}");
    char *text = (char *)room(source.length + 1, 1);
    tg_copy((uint8_t *)text, source);
    bool is_started = tg_test_start(text);
    if (refused.at || !is_started) {
        if (is_started) fail("expected that it is refused, it starts");
        if (!refused.at) fail("it does not start: %.*s", TG_SHOW(tg_test_failure()));
        if (!is_started && refused.at) compare_failure(refused);
        return;
    }
    tg_json records = tg_json_member(json, "records");
    uint32_t count = count_of(records), index = 0;
    tg_test_record *given = (tg_test_record *)room(count, sizeof *given);
    tg_test_outcome *outcomes = (tg_test_outcome *)room(count, sizeof *outcomes);
    tg_json_items items = tg_json_items_of(records);
    for (tg_json one; tg_json_next(&items, NULL, &one); index++) given[index] = record_of(one, index);
    if (is_failed) return;
    bool is_run = tg_test_run(given, count, outcomes);
    if (!is_run && !failure.at) {
        fail("the batch fails: %.*s", TG_SHOW(tg_test_failure()));
    } else if (failure.at) {
        if (is_run) fail("expected that the batch fails, it does not");
        else compare_failure(failure);
    } else {
        compare_outcomes(tg_json_member(json, "outcomes"), outcomes, count);
    }
    if (log.at) compare_log(log);
    if (metrics.at) compare_metrics(metrics);
}

// The text of a file; null if it cannot be read.
static tg_bytes read_file(const char *path) {
    FILE *from = fopen(path, "rb");
    if (!from) return tg_null();
    size_t length = 0, space = 65536, got;
    uint8_t *at = (uint8_t *)malloc(space);
    while (at && (got = fread(at + length, 1, space - length, from)) != 0) {
        length += got;
        if (length == space) at = (uint8_t *)realloc(at, space *= 2);
    }
    fclose(from);
    return tg_bytes_of(at, length);
}

static void run_file(const char *path) {
    file = path;
    case_name = tg_str("");
    tg_json whole;
    uint32_t at;
    tg_bytes text = read_file(path);
    const char *wrong = text.at ? tg_json_read(text, &whole, &at) : "it cannot be read";
    tg_json cases = {NULL, NULL};
    if (!wrong) cases = tg_json_member(whole, "cases");
    if (!wrong && tg_json_kind_of(cases) != TG_JSON_ARRAY) wrong = "it has no list `cases`";
    if (wrong) {
        tg_test_ran();
        tg_test_failed("%s: %s", path, wrong);
    }
    tg_json_items items = tg_json_items_of(cases);
    for (tg_json one; tg_json_next(&items, NULL, &one);) {
        bool is_for_sandbox = false;
        tg_json_boolean(tg_json_member(one, "sandbox"), &is_for_sandbox);
        if (is_for_sandbox) continue;
        tg_arena_clear(&tg_test_case_memory);
        is_failed = false;
        case_name = tg_str("without a name");
        case_name = text_of(tg_json_member(one, "name"));
        tg_test_ran();
        run_case(one, tg_json_member(whole, "config"));
    }
    free((void *)(uintptr_t)text.at);
}

void tg_test_cases(const char *pattern) {
    glob_t found;
    // What matches nothing is taken as the name of a file, which is then missing.
    if (glob(pattern, GLOB_NOCHECK, NULL, &found) != 0) tg_end("there is no memory left for names of files");
    for (size_t path = 0; path < found.gl_pathc; path++) run_file(found.gl_pathv[path]);
    globfree(&found);
}
