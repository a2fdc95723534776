// Lanes of answers, for tests of what handles tokens.

#include "testing.h"

static uint64_t last_lane;
static tg_buffer let_through;

static tg_bytes copied(const tg_buffer *text) {
    return text->length == 0 ? tg_str("") : tg_copy_into(&tg_test_batch_memory, tg_bytes_of(text->at, text->length));
}

// The operator is told what it reads, as by the host.
uint64_t tg_test_open(const tg_lane *given) {
    tg_lane lane = *given;
    if (!lane.identity.at) lane.identity = tg_str("source 0 partition 0 offset 0");
    if (!lane.model.at) lane.model = tg_str("model");
    if (!(tg_the_operator.reads & TG_READS_ATTRIBUTES)) lane.attribute_count = 0;
    return tg_lane_open(&tg_the_tokens, ++last_lane, &lane) ? last_lane : 0;
}

bool tg_test_step(uint64_t lane, tg_bytes text, bool is_last, tg_test_through *through) {
    let_through.length = 0;
    // In memory of exactly its length, so that reading beyond its end shows.
    uint8_t *given = (uint8_t *)malloc(text.length ? text.length : 1);
    if (!given) tg_end("there is no memory left for a text");
    tg_copy(given, text);
    through->end = TG_NO_END;
    bool is_right =
        tg_lane_step(&tg_the_tokens, lane, tg_bytes_of(given, text.length), is_last, &let_through, &through->end);
    free(given);
    through->text = copied(&let_through);
    return is_right;
}

bool tg_test_run_lane(uint64_t lane, const tg_bytes *pieces, uint32_t count, tg_test_through *sum) {
    tg_buffer all = {NULL, 0, 0};
    tg_test_through one = {tg_str(""), TG_NO_END};
    bool is_right = true;
    for (uint32_t at = 0; at < count && is_right && one.end == TG_NO_END; at++) {
        is_right = tg_test_step(lane, pieces[at], at + 1 == count, &one);
        tg_copy(tg_buffer_more(&all, one.text.length), one.text);
    }
    tg_lane_close(&tg_the_tokens, lane);
    sum->end = one.end;
    sum->text = copied(&all);
    free(all.at);
    return is_right;
}
