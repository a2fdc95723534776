// Holds what came against what a case expects, and shows the difference.

#include "testing.h"

// Most bytes of an outcome that a difference shows.
enum { SHOWN_OF_OUTCOMES = 300 };

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

// The outcome that means the same, as for the host: a route to the main output is a replace, one without changes a pass, a
// split into nothing a drop.
static tg_test_action simplest(const tg_test_outcome *outcome) {
    tg_test_action action = outcome->action;
    if (action == TG_SPLIT_UP && outcome->patch_count == 0) return TG_DROPPED;
    if (action == TG_ROUTED && outcome->patches->output == TG_MAIN) action = TG_REPLACED;
    return action == TG_REPLACED && is_empty(outcome->patches) ? TG_PASSED : action;
}

// An outcome as cases have it, without its text.
static tg_bytes shown(const tg_test_outcome *outcome) {
    tg_writer to = {NULL, 0, 0};
    tg_test_action action = simplest(outcome);
    switch (action) {
    case TG_PASSED: return tg_str("\"pass\"");
    case TG_DROPPED: return tg_str("\"drop\"");
    case TG_REPLACED:
    case TG_ROUTED:
        tg_write_format(&to, "{\"%s\": ", action == TG_REPLACED ? "replace" : "route");
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
    uint32_t skipped = same > SHOWN_OF_OUTCOMES / 2 ? same - SHOWN_OF_OUTCOMES / 2 : 0;
    tg_bytes *both[] = {one, other};
    for (int side = 0; side < 2; side++) {
        both[side]->at += skipped;
        both[side]->length -= skipped;
        if (both[side]->length > SHOWN_OF_OUTCOMES) both[side]->length = SHOWN_OF_OUTCOMES;
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
            fail("record %u: expected %.*s, came %.*s%s%.*s", record + 1, TG_SHOW(said), TG_SHOW(came), before,
                 TG_SHOW(reason));
        } else if (text.at && !is_text(text, reason)) {
            fail("record %u: expected the reason %.*s, came %.*s", record + 1, TG_SHOW(tg_json_source(text)),
                 TG_SHOW(reason));
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
            fail("line %u of the log: expected %.*s, came %s: %.*s", index + 1, TG_SHOW(tg_json_source(line)),
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

// Whether two numbers are the same but for how sums were rounded.
static bool is_near(double one, double other) {
    double apart = one < other ? other - one : one - other;
    double first = one < 0 ? -one : one, second = other < 0 ? -other : other;
    return apart <= 1e-9 * (first > second ? first : second);
}

static bool has_value(const tg_test_series *series, tg_json expected) {
    tg_metric_kind kind = tg_running.metrics[series->metric].kind;
    double number, count, sum;
    if (kind == TG_HISTOGRAM) {
        return tg_json_number(tg_json_member(expected, "count"), &count) &&
               tg_json_number(tg_json_member(expected, "sum"), &sum) && count == (double)series->count &&
               is_near(sum, series->sum);
    }
    return tg_json_number(expected, &number) && is_near(number, kind == TG_COUNTER ? series->sum : series->last);
}

// What stayed at zero is as if it had not been measured.
static bool is_zero(const tg_test_series *series) {
    switch (tg_running.metrics[series->metric].kind) {
    case TG_COUNTER: return series->sum == 0;
    case TG_GAUGE: return series->last == 0;
    default: return false;
    }
}

static void compare_metrics(tg_json expected) {
    uint32_t count;
    double number;
    const tg_test_series *series = tg_test_measured(&count);
    tg_json_items items = tg_json_items_of(expected);
    bool *is_expected = (bool *)room(count, sizeof *is_expected);
    for (tg_json one; tg_json_next(&items, NULL, &one);) {
        tg_json value = tg_json_member(one, "value");
        uint32_t index = 0;
        while (index < count && !is_series(&series[index], one)) index++;
        if (index == count) {
            if (tg_json_number(value, &number) && number == 0) continue;
            fail("expected the metric %.*s, it was not measured", TG_SHOW(tg_json_source(one)));
            continue;
        }
        is_expected[index] = true;
        if (has_value(&series[index], value)) continue;
        tg_writer came = {NULL, 0, 0};
        tg_write_number(&came, series[index].sum);
        fail("expected the metric %.*s, came %llu measurements, their sum is %.*s", TG_SHOW(tg_json_source(one)),
             (unsigned long long)series[index].count, TG_SHOW(tg_written(&came)));
    }
    for (uint32_t index = 0; index < count; index++) {
        if (is_expected[index] || is_zero(&series[index])) continue;
        fail("the metric %s was measured, which is not expected", tg_running.metrics[series[index].metric].name);
    }
}
