// What is measured while a record is processed: samples of the answer.

#include "inside.h"

void tg_forget_samples(void) {
    run->samples.length = run->record_samples_at;
    run->sample_count -= run->record_samples;
    run->record_samples = 0;
}

// As much of a label's value as the host takes, cut at a character.
static tg_bytes cut(tg_bytes label) {
    label = tg_as_text(label);
    if (label.length <= TG_MAX_LABEL) return label;
    uint32_t length = TG_MAX_LABEL;
    while ((label.at[length] & 0xc0) == 0x80) length--;
    return tg_bytes_of(label.at, length);
}

// How many labels a metric has.
static uint32_t labels_of(const tg_metric *metric) {
    uint32_t count = 0;
    while (metric->labels && metric->labels[count]) count++;
    return count;
}

// Writes a sample down: `bits` is an amount, or those of a value.
static void sample(tg_record *record, uint32_t metric, bool is_amount, uint64_t bits, const tg_bytes *labels,
                   uint32_t label_count) {
    if (metric >= run->metric_count) {
        tg_refuse_record(tg_format("metric %u is not declared, the operator has %u", metric, run->metric_count));
        return;
    }
    const tg_metric *declared = &run->metrics[metric];
    if (is_amount != (declared->kind == TG_COUNTER)) {
        tg_refuse_record(tg_format("metric %s is %s a counter", declared->name, is_amount ? "not" : "measured, but"));
        return;
    }
    if (labels_of(declared) != label_count) {
        tg_refuse_record(tg_format("metric %s is measured with %u labels, it has %u", declared->name, label_count,
                                   labels_of(declared)));
        return;
    }
    run->sample_count++;
    if (++run->record_samples > TG_MAX_SAMPLES) return;
    uint8_t *to = tg_buffer_more(&run->samples, 16);
    tg_put_32(to, record->index);
    tg_put_16(to + 4, metric);
    tg_put_16(to + 6, label_count);
    tg_put_64(to + 8, bits);
    for (uint32_t label = 0; label < label_count; label++) {
        tg_bytes text = cut(labels[label]);
        to = tg_buffer_more(&run->samples, 2 + text.length);
        tg_put_16(to, text.length);
        tg_copy(to + 2, text);
    }
}

void tg_count_for(tg_record *record, uint32_t metric, uint64_t amount, const tg_bytes *labels, uint32_t label_count) {
    sample(record, metric, true, amount, labels, label_count);
}

void tg_count(tg_record *record, uint32_t metric, uint64_t amount) { tg_count_for(record, metric, amount, NULL, 0); }

void tg_measure_for(tg_record *record, uint32_t metric, double value, const tg_bytes *labels, uint32_t label_count) {
    if (value - value != 0) return;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    sample(record, metric, false, bits, labels, label_count);
}

void tg_measure(tg_record *record, uint32_t metric, double value) { tg_measure_for(record, metric, value, NULL, 0); }
