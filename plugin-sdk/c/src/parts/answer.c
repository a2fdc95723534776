// What becomes of a record: written into the answer while the operator says it.

#include "inside.h"

tg_runner tg_running;

enum { KEY, VALUE, HEADERS, ATTRIBUTES, TIME, END };

// Forgets what was said of the record, but not what could not be done for it.
static void say(int action) {
    run->answer.length = run->payload;
    run->action = action;
    run->pieces = 0;
}

// An outcome that is whole in itself.
static void say_wholly(int action) {
    run->refused = tg_null();
    say(action);
}

void tg_refuse_record(tg_bytes reason) {
    if (!run->refused.at) run->refused = reason;
}

void tg_outcome_begin(void) {
    run->payload = run->answer.length;
    run->action = TG_ACTION_PASS;
    run->refused = tg_null();
    run->pieces = 0;
    run->record_samples = 0;
    run->record_samples_at = run->samples.length;
}

static void begin_patch(void) {
    *tg_buffer_more(&run->answer, 1) = 0;
    for (int part = 0; part <= END; part++) run->parts[part] = run->answer.length;
}

// The mask of the patch, which stands before its first part.
static uint8_t *mask(void) { return run->answer.at + run->parts[KEY] - 1; }

static bool is_patch(void) {
    return run->action == TG_ACTION_REPLACE || run->action == TG_ACTION_ROUTE ||
           (run->action == TG_ACTION_SPLIT && run->pieces != 0);
}

// Whether a change can be written; the first one makes a patch. Pieces beyond the limit are only counted.
static bool is_changing(void) {
    if (!is_patch()) {
        say(TG_ACTION_REPLACE);
        begin_patch();
    }
    return run->pieces <= TG_MAX_PIECES;
}

// Gives a part of the patch another size; those behind it move. Its first byte.
static uint8_t *resize(int part, size_t size) {
    size_t begin = run->parts[part], end = run->parts[part + 1], had = end - begin;
    size_t behind = run->answer.length - end;
    if (size > had) {
        tg_buffer_more(&run->answer, size - had);
    } else {
        run->answer.length -= had - size;
    }
    if (behind != 0 && size != had) memmove(run->answer.at + begin + size, run->answer.at + end, behind);
    for (int moved = part + 1; moved <= END; moved++) run->parts[moved] = run->parts[moved] - had + size;
    return run->answer.at + begin;
}

// Whether bytes are in the answer, which moves while it grows.
static bool is_in_answer(tg_bytes bytes) {
    return bytes.length != 0 && bytes.at >= run->answer.at && bytes.at < run->answer.at + run->answer.room;
}

static tg_bytes apart(tg_bytes bytes) {
    if (!is_in_answer(bytes)) return bytes;
    uint8_t *copy = (uint8_t *)tg_memory(bytes.length);
    tg_copy(copy, bytes);
    return tg_bytes_of(copy, bytes.length);
}

static void set_field(int part, uint8_t bit, tg_bytes bytes) {
    if (!is_changing()) return;
    bytes = apart(bytes);
    *mask() |= bit;
    uint8_t *to = resize(part, tg_sum(4, bytes.length));
    tg_put_32(to, bytes.at ? bytes.length : UINT32_MAX);
    tg_copy(to + 4, bytes);
}

void tg_pass(tg_record *record) {
    (void)record;
    say_wholly(TG_ACTION_PASS);
}

void tg_drop(tg_record *record) {
    (void)record;
    say_wholly(TG_ACTION_DROP);
}

void tg_replace(tg_record *record) {
    (void)record;
    if (run->action == TG_ACTION_REPLACE) return;
    say(TG_ACTION_REPLACE);
    begin_patch();
}

void tg_split(tg_record *record) {
    (void)record;
    say(TG_ACTION_SPLIT);
    tg_put_32(tg_buffer_more(&run->answer, 4), 0);
}

static bool is_declared(tg_output output) {
    if (output <= run->output_count) return true;
    tg_refuse_record(tg_format("output %u is not declared, the operator has %u", output, run->output_count));
    return false;
}

void tg_piece(tg_record *record, tg_output output) {
    if (!is_declared(output)) return;
    if (run->action != TG_ACTION_SPLIT) tg_split(record);
    if (++run->pieces > TG_MAX_PIECES) return;
    tg_put_16(tg_buffer_more(&run->answer, 2), output);
    begin_patch();
}

void tg_route(tg_record *record, tg_output output) {
    (void)record;
    if (!is_declared(output)) return;
    if (run->action == TG_ACTION_REPLACE) {
        // The changes stay, behind the output.
        size_t length = run->answer.length - run->payload;
        tg_buffer_more(&run->answer, 2);
        uint8_t *payload = run->answer.at + run->payload;
        memmove(payload + 2, payload, length);
        for (int part = 0; part <= END; part++) run->parts[part] += 2;
        run->action = TG_ACTION_ROUTE;
    } else if (run->action != TG_ACTION_ROUTE) {
        say(TG_ACTION_ROUTE);
        tg_buffer_more(&run->answer, 2);
        begin_patch();
    }
    tg_put_16(run->answer.at + run->payload, output);
}

tg_output tg_output_of(tg_bytes name) {
    for (uint32_t output = 0; output < run->output_count; output++) {
        if (tg_same(run->outputs[output], name)) return (tg_output)(output + 1);
    }
    return TG_NO_OUTPUT;
}

void tg_route_to(tg_record *record, tg_bytes name) {
    tg_output output = tg_output_of(name);
    if (output != TG_NO_OUTPUT) {
        tg_route(record, output);
        return;
    }
    tg_writer reason = {NULL, 0, 0};
    tg_write_text(&reason, "there is no output ");
    tg_write_json(&reason, name);
    tg_write_text(&reason, ", the operator has ");
    for (uint32_t known = 0; known < run->output_count; known++) {
        if (known) tg_write_text(&reason, ", ");
        tg_write_json(&reason, run->outputs[known]);
    }
    if (run->output_count == 0) tg_write_text(&reason, "none");
    tg_refuse_record(tg_written(&reason));
}

static void reason_of(int action, uint32_t milliseconds, tg_bytes reason) {
    reason = apart(tg_as_text(reason));
    say_wholly(action);
    size_t before = action == TG_ACTION_RETRY ? 8 : 4;
    uint8_t *to = tg_buffer_more(&run->answer, tg_sum(before, reason.length));
    tg_put_32(to, milliseconds);
    tg_put_32(to + before - 4, reason.length);
    tg_copy(to + before, reason);
}

void tg_retry(tg_record *record, uint32_t milliseconds, tg_bytes reason) {
    (void)record;
    reason_of(TG_ACTION_RETRY, milliseconds, reason);
}

void tg_dead_letter(tg_record *record, tg_bytes reason) {
    (void)record;
    reason_of(TG_ACTION_DEAD_LETTER, 0, reason);
}

void tg_dead_letter_of(tg_record *record, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tg_dead_letter(record, tg_formatted(format, arguments));
    va_end(arguments);
}

void tg_throw_at(tg_record *record, const char *file, int line, const char *format, ...) {
    tg_writer reason = {NULL, 0, 0};
    va_list arguments;
    va_start(arguments, format);
    tg_write_formatted(&reason, format, arguments);
    va_end(arguments);
    tg_write_format(&reason, " (%s:%d)", tg_file_name(file), line);
    tg_forget_samples();
    tg_dead_letter(record, tg_written(&reason));
}

void tg_set_key(tg_record *record, tg_bytes key) {
    (void)record;
    set_field(KEY, TG_MASK_KEY, key);
}

void tg_set_value(tg_record *record, tg_bytes value) {
    (void)record;
    set_field(VALUE, TG_MASK_VALUE, value);
}

uint8_t *tg_set_value_in_place(tg_record *record, uint32_t length) {
    (void)record;
    // Room for a piece that will not be is room nobody reads.
    if (!is_changing()) return (uint8_t *)tg_memory(length);
    *mask() |= TG_MASK_VALUE;
    uint8_t *to = resize(VALUE, tg_sum(4, length));
    tg_put_32(to, length);
    return to + 4;
}

// One change of headers or attributes.
static void change_pairs(int part, uint8_t bit, int operation, tg_bytes name, tg_bytes value) {
    const char *what = part == HEADERS ? "headers" : "attributes";
    if (!is_changing() || run->refused.at) return;
    // What is not UTF-8 takes three bytes for one: it is measured as it goes into the answer.
    if (name.length <= TG_MAX_NAME) name = tg_as_text(name);
    if (name.length > TG_MAX_NAME) {
        tg_refuse_record(tg_format("changes cannot be applied: a name of %u bytes among the %s exceeds the limit of %d",
                                   name.length, what, TG_MAX_NAME));
        return;
    }
    name = apart(name);
    value = apart(value);
    bool is_first = run->parts[part] == run->parts[part + 1];
    uint32_t count = is_first ? 0 : tg_read_16(run->answer.at + run->parts[part]);
    if (count == TG_MAX_PAIRS) {
        tg_refuse_record(tg_format("changes cannot be applied: there are more than %d of the %s", TG_MAX_PAIRS, what));
        return;
    }
    *mask() |= bit;
    size_t had = is_first ? 2 : run->parts[part + 1] - run->parts[part];
    uint8_t *block = resize(part, tg_sum(tg_sum(had, 7 + (size_t)name.length), value.length));
    tg_put_16(block, count + 1);
    uint8_t *to = block + had;
    to[0] = (uint8_t)operation;
    tg_put_16(to + 1, name.length);
    tg_put_32(to + 3, value.at ? value.length : UINT32_MAX);
    tg_copy(to + 7, name);
    tg_copy(to + 7 + name.length, value);
}

void tg_set_header(tg_record *record, tg_bytes name, tg_bytes value) {
    (void)record;
    change_pairs(HEADERS, TG_MASK_HEADERS, TG_CHANGE_SET, name, value);
}

void tg_add_header(tg_record *record, tg_bytes name, tg_bytes value) {
    (void)record;
    change_pairs(HEADERS, TG_MASK_HEADERS, TG_CHANGE_ADD, name, value);
}

void tg_remove_header(tg_record *record, tg_bytes name) {
    (void)record;
    change_pairs(HEADERS, TG_MASK_HEADERS, TG_CHANGE_REMOVE, name, tg_null());
}

void tg_set_attribute(tg_record *record, tg_bytes name, tg_bytes value) {
    (void)record;
    change_pairs(ATTRIBUTES, TG_MASK_ATTRIBUTES, TG_CHANGE_SET, name, value);
}

void tg_add_attribute(tg_record *record, tg_bytes name, tg_bytes value) {
    (void)record;
    change_pairs(ATTRIBUTES, TG_MASK_ATTRIBUTES, TG_CHANGE_ADD, name, value);
}

void tg_remove_attribute(tg_record *record, tg_bytes name) {
    (void)record;
    change_pairs(ATTRIBUTES, TG_MASK_ATTRIBUTES, TG_CHANGE_REMOVE, name, tg_null());
}

void tg_set_event_time(tg_record *record, int64_t micros) {
    (void)record;
    if (!is_changing()) return;
    *mask() |= TG_MASK_TIME;
    tg_put_64(resize(TIME, 8), (uint64_t)micros);
}

int tg_outcome_end(tg_record *record) {
    if (run->action == TG_ACTION_SPLIT && run->pieces > TG_MAX_PIECES) {
        tg_refuse_record(tg_format("split into %u pieces, at most %d can be", run->pieces, TG_MAX_PIECES));
    }
    if (run->record_samples > TG_MAX_SAMPLES) {
        tg_refuse_record(
            tg_format("%u measurements of a record, at most %d can be", run->record_samples, TG_MAX_SAMPLES));
    }
    if (run->refused.at) {
        // What was measured belongs to an outcome that is not.
        tg_forget_samples();
        tg_dead_letter(record, run->refused);
    }
    if (run->action == TG_ACTION_SPLIT) tg_put_32(run->answer.at + run->payload, run->pieces);
    if (run->action == TG_ACTION_REPLACE && *mask() == 0) say(TG_ACTION_PASS);
    return run->action;
}
