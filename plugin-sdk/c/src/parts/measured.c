// Reads the samples of answers in tests, and sums them up.

#include "testing.h"

static tg_test_series *series;
static uint32_t series_count, series_room;

void tg_test_forget_measured(void) {
    series = NULL;
    series_count = series_room = 0;
}

const tg_test_series *tg_test_measured(uint32_t *count) {
    *count = series_count;
    return series;
}

static tg_test_series *series_of(uint32_t metric, const tg_bytes *labels, uint32_t label_count) {
    for (uint32_t index = 0; index < series_count; index++) {
        bool is_same = series[index].metric == metric;
        for (uint32_t label = 0; is_same && label < label_count; label++) {
            is_same = tg_same(series[index].labels[label], labels[label]);
        }
        if (is_same) return &series[index];
    }
    if (series_count == series_room) {
        series_room = series_room ? 2 * series_room : 64;
        // Kept with the configuration: a new start forgets both.
        tg_test_series *moved = (tg_test_series *)tg_keep(series_room * sizeof *moved);
        if (series_count) memcpy(moved, series, series_count * sizeof *moved);
        series = moved;
    }
    tg_bytes *kept = (tg_bytes *)tg_keep(label_count * sizeof *kept);
    for (uint32_t label = 0; label < label_count; label++) kept[label] = tg_kept_copy(labels[label]);
    tg_test_series added = {metric, kept, label_count, 0, 0, 0};
    series[series_count] = added;
    return &series[series_count++];
}

static uint32_t labels_of(uint32_t metric) {
    uint32_t count = 0;
    const char *const *labels = tg_running.metrics[metric].labels;
    while (labels && labels[count]) count++;
    return count;
}

// Reads one sample; it counts if its record does not come again.
static void take_sample(reader *reader, uint32_t records, const tg_test_outcome *outcomes) {
    const uint8_t *head = take(reader, 8);
    uint64_t bits = tg_read_64(take(reader, 8));
    uint32_t record = tg_read_32(head), metric = tg_read_16(head + 4), count = tg_read_16(head + 6);
    check(reader, record < records, "a sample is of no record");
    check(reader, metric < tg_running.metric_count, "a sample is of no metric");
    if (reader->wrong) return;
    check(reader, count == labels_of(metric) && count <= TG_MAX_LABELS, "a sample has another number of labels");
    tg_bytes labels[TG_MAX_LABELS];
    for (uint32_t label = 0; label < count && !reader->wrong; label++) {
        labels[label] = take_bytes(reader, tg_read_16(take(reader, 2)));
        check(reader, tg_is_utf8(labels[label]) && labels[label].length <= TG_MAX_LABEL,
              "a label is no text of 256 bytes");
    }
    if (reader->wrong || outcomes[record].action == TG_RETRIED) return;
    double value = (double)bits;
    if (tg_running.metrics[metric].kind != TG_COUNTER) memcpy(&value, &bits, sizeof value);
    check(reader, value - value == 0, "a value is not finite");
    tg_test_series *measured = series_of(metric, labels, count);
    measured->count++;
    measured->sum += value;
    measured->last = value;
}

const char *tg_test_measure(tg_bytes answer, uint32_t records, const tg_test_outcome *outcomes) {
    uint32_t sections = tg_read_32(answer.at + 32);
    const uint8_t *table = part(answer, tg_read_32(answer.at + 36), TG_SECTION_ENTRY * (uint64_t)sections);
    if (!table) return "the section table lies outside of the answer";
    for (uint32_t section = 0; section < sections; section++, table += TG_SECTION_ENTRY) {
        if (tg_read_32(table) != TG_SECTION_SAMPLES || section != 0) return "a section is unknown, or there twice";
        uint32_t length = tg_read_32(table + 12);
        const uint8_t *at = part(answer, tg_read_32(table + 8), length);
        if (!at) return "a section lies outside of the answer";
        reader reader = {at, at + length, NULL};
        for (uint32_t left = tg_read_32(table + 4); left != 0 && !reader.wrong; left--) {
            take_sample(&reader, records, outcomes);
        }
        check(&reader, reader.at == reader.end, "bytes are left behind the last sample");
        if (reader.wrong) return reader.wrong;
    }
    return NULL;
}
