// Runs the operator over batches: the host's calls and the harness both come here.

#include "inside.h"

static const uint32_t CRITICAL_FLAGS = 0xffff0000, CRITICAL_KIND = 0x80000000;
// Least bytes of a batch's header and of an entry of its table; later versions may have more of both.
static const uint32_t BATCH_HEADER = 64, BATCH_ENTRY = 72;
static const uint8_t BATCH_MAGIC[4] = {'T', 'G', 'B', 2}, ANSWER_MAGIC[4] = {'T', 'G', 'O', 2};

static void set_failure(tg_class failure, const char *code, tg_bytes message) {
    run->failure.failure = failure;
    // Without a code it is a failure all the same; this is how the host shows one.
    run->failure.code = code ? code : "unnamed";
    run->failure.message = tg_as_text(message);
}

void tg_fail(tg_record *record, tg_class failure, const char *code, const char *format, ...) {
    (void)record;
    va_list arguments;
    va_start(arguments, format);
    set_failure(failure, code, tg_formatted(format, arguments));
    va_end(arguments);
}

bool tg_refuse(tg_class failure, const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_failure(failure, code, tg_formatted(format, arguments));
    va_end(arguments);
    return false;
}

void tg_log(tg_level level, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tg_host_log(level, tg_as_text(tg_formatted(format, arguments)));
    va_end(arguments);
}

void tg_panic_at(const char *file, int line, const char *format, ...) {
    tg_writer text = {NULL, 0, 0};
    tg_write_format(&text, "panicked at %s:%d: ", tg_file_name(file), line);
    va_list arguments;
    va_start(arguments, format);
    tg_write_formatted(&text, format, arguments);
    va_end(arguments);
    tg_write_text(&text, "\n");
    tg_panicked(tg_as_text(tg_written(&text)));
}

void tg_name_output(tg_bytes name) {
    if (tg_output_of(name) != TG_NO_OUTPUT) return;
    if (run->output_count == TG_MAX_OUTPUTS) {
        run->has_too_many_outputs = true;
        return;
    }
    run->outputs[run->output_count++] = tg_kept_copy(name);
}

// Names the outputs. Those that the configuration names are known only with one.
static bool name_outputs(const tg_operator *with, bool is_configured) {
    run->output_count = 0;
    run->has_too_many_outputs = false;
    for (const char *const *name = with->outputs; name && *name; name++) {
        // Its number would be that of the first, and all behind it would have another than they stand at.
        if (tg_output_of(tg_str(*name)) != TG_NO_OUTPUT) {
            return tg_refuse(TG_BAD_CONFIGURATION, "output-twice", "the output \"%s\" is there twice in .outputs",
                             *name);
        }
        tg_name_output(tg_str(*name));
    }
    if (with->name_outputs && is_configured) with->name_outputs();
    if (run->has_too_many_outputs) {
        return tg_refuse(TG_BAD_CONFIGURATION, "too-many-outputs", "there are more than %d outputs", TG_MAX_OUTPUTS);
    }
    return true;
}

bool tg_begin(const tg_operator *with, tg_bytes config, bool is_start) {
    tg_arena_clear(&tg_scratch);
    tg_arena_clear(&tg_kept);
    run->failure.code = NULL;
    run->metrics = with->metrics;
    run->metric_count = 0;
    while (with->metrics && with->metrics[run->metric_count].name) run->metric_count++;
    bool is_configured = tg_configure(with, config);
    if (!is_start) {
        // A configuration that cannot be read is refused by the schema and by the start: who only asks what the
        // operator is, with an empty one, gets an answer.
        run->failure.code = NULL;
        return name_outputs(with, is_configured);
    }
    if (!is_configured || !name_outputs(with, true)) return false;
    run->refused = tg_null();
    bool is_right = !with->start || with->start();
    // What a format cannot write.
    if (is_right && run->refused.at) return tg_refuse(TG_PERMANENT, "refused", "%.*s", TG_SHOW(run->refused));
    if (!is_right) {
        if (!run->failure.code) tg_refuse(TG_PERMANENT, "not-started", "the operator does not start");
        return false;
    }
    run->is_started = true;
    return true;
}

static bool unknown(void) {
    return tg_refuse(TG_PERMANENT, "unknown-arena", "the batch has what this operator does not know");
}

static bool bad(const char *why) { return tg_refuse(TG_PERMANENT, "bad-batch", "the batch cannot be read: %s", why); }

// Looks at the header, the sections and the place of the table. The records themselves the host has looked at; to do it again
// would cost more than a filter does.
static bool is_readable(tg_bytes batch) {
    const uint8_t *at = batch.at;
    if (batch.length < BATCH_HEADER || memcmp(at, BATCH_MAGIC, sizeof BATCH_MAGIC) != 0) return bad("it is no arena of layout 2");
    if (tg_read_32(at + 4) != batch.length) return bad("it has another length than it says");
    if (tg_read_32(at + 12) & CRITICAL_FLAGS) return unknown();
    uint32_t header = tg_read_32(at + 8), records = tg_read_32(at + 16), stride = tg_read_32(at + 20);
    uint32_t table = tg_read_32(at + 24), sections = tg_read_32(at + 28), section_table = tg_read_32(at + 32);
    bool is_laid_out = header >= BATCH_HEADER && table >= header && stride >= BATCH_ENTRY && (header | stride | table) % 8 == 0;
    if (!is_laid_out || table + (uint64_t)records * stride > batch.length) return bad("its records do not lie within it");
    if (section_table + (uint64_t)sections * TG_SECTION_ENTRY > batch.length) return bad("its sections do not lie within it");
    for (uint32_t section = 0; section < sections; section++) {
        if (tg_read_32(at + section_table + TG_SECTION_ENTRY * (size_t)section) >= CRITICAL_KIND) return unknown();
    }
    return true;
}

// Writes the header and the samples around the actions and payloads.
static tg_bytes finish(uint32_t records) {
    tg_buffer *answer = &run->answer;
    size_t payloads = TG_ANSWER_HEADER + (size_t)records, end = answer->length, table = 0;
    if (run->sample_count != 0) {
        memcpy(tg_buffer_more(answer, run->samples.length), run->samples.at, run->samples.length);
        table = answer->length;
        uint8_t *section = tg_buffer_more(answer, TG_SECTION_ENTRY);
        tg_put_32(section, TG_SECTION_SAMPLES);
        tg_put_32(section + 4, run->sample_count);
        tg_put_32(section + 8, end);
        tg_put_32(section + 12, run->samples.length);
    }
    uint8_t *header = answer->at;
    memcpy(header, ANSWER_MAGIC, sizeof ANSWER_MAGIC);
    tg_put_32(header + 4, answer->length);
    tg_put_32(header + 8, TG_ANSWER_HEADER);
    tg_put_32(header + 12, 0);
    tg_put_32(header + 16, records);
    tg_put_32(header + 20, TG_ANSWER_HEADER);
    tg_put_32(header + 24, payloads);
    tg_put_32(header + 28, end - payloads);
    tg_put_32(header + 32, run->sample_count != 0);
    tg_put_32(header + 36, table);
    return tg_bytes_of(header, answer->length);
}

tg_bytes tg_process(const tg_operator *with, tg_bytes given) {
    run->failure.code = NULL;
    if (!run->is_started) {
        tg_refuse(TG_PERMANENT, "not-started", "`process` was called before `init`");
        return tg_null();
    }
    if (!is_readable(given)) return tg_null();
    const uint8_t *batch = given.at;
    uint32_t records = tg_read_32(batch + 16), stride = tg_read_32(batch + 20);
    run->answer.length = run->samples.length = run->sample_count = 0;
    tg_buffer_more(&run->answer, TG_ANSWER_HEADER + (size_t)records);
    tg_record record = {batch, batch + tg_read_32(batch + 24), 0};
    for (; record.index < records; record.index++, record.entry += stride) {
        tg_outcome_begin();
        with->process(&record);
        if (run->failure.code) return tg_null();
        int action = run->action;
        if (action > TG_ACTION_DROP || run->refused.at || run->record_samples != 0) action = tg_outcome_end(&record);
        run->answer.at[TG_ANSWER_HEADER + record.index] = (uint8_t)action;
        if (tg_scratch.used != 0) tg_arena_clear(&tg_scratch);
    }
    return finish(records);
}
