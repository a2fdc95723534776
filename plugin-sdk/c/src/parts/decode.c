// Reads answers in tests, as strictly as the host does.

#include "testing.h"

// What is left of an answer's payloads, and what is wrong with them.
typedef struct reader {
    const uint8_t *at, *end;
    const char *wrong;
} reader;

static const uint8_t *take(reader *reader, size_t size) {
    static const uint8_t nothing[8];
    if (reader->wrong || (size_t)(reader->end - reader->at) < size) {
        if (!reader->wrong) reader->wrong = "the payloads end too early";
        return size <= sizeof nothing ? nothing : NULL;
    }
    const uint8_t *at = reader->at;
    reader->at += size;
    return at;
}

static void check(reader *reader, bool is_right, const char *why) {
    if (!is_right && !reader->wrong) reader->wrong = why;
}

static tg_bytes take_bytes(reader *reader, uint32_t length) {
    if (length == UINT32_MAX) return tg_null();
    const uint8_t *at = take(reader, length);
    return reader->wrong ? tg_null() : tg_bytes_of(at, length);
}

static tg_bytes take_text(reader *reader) {
    tg_bytes text = take_bytes(reader, tg_read_32(take(reader, 4)));
    check(reader, tg_is_utf8(text), "a reason is not UTF-8");
    return text;
}

static const tg_test_change *take_changes(reader *reader, uint32_t *count) {
    *count = tg_read_16(take(reader, 2));
    if (reader->wrong) *count = 0;
    check(reader, *count != 0, "a list of changes is empty");
    tg_test_change *changes = (tg_test_change *)tg_arena_take(&tg_test_batch_memory, *count * sizeof *changes);
    for (uint32_t index = 0; index < *count; index++) {
        const uint8_t *head = take(reader, 7);
        changes[index].operation = head[0];
        check(reader, head[0] <= TG_CHANGE_REMOVE, "a change is none of set, add and remove");
        uint32_t value = tg_read_32(head + 3);
        check(reader, head[0] != TG_CHANGE_REMOVE || value == UINT32_MAX, "a removed pair has a value");
        changes[index].name = take_bytes(reader, tg_read_16(head + 1));
        changes[index].value = take_bytes(reader, value);
        check(reader, tg_is_utf8(changes[index].name), "a name is not UTF-8");
    }
    return changes;
}

static tg_output take_output(reader *reader) {
    tg_output output = tg_read_16(take(reader, 2));
    check(reader, output <= tg_running.output_count, "an output is not declared");
    return output;
}

static void take_patch(reader *reader, tg_test_patch *patch) {
    uint8_t mask = *take(reader, 1);
    check(reader, mask < 32, "the mask of a patch has unknown bits");
    patch->has_key = mask & TG_MASK_KEY;
    patch->has_value = mask & TG_MASK_VALUE;
    patch->has_event_time = mask & TG_MASK_TIME;
    if (patch->has_key) patch->key = take_bytes(reader, tg_read_32(take(reader, 4)));
    if (patch->has_value) patch->value = take_bytes(reader, tg_read_32(take(reader, 4)));
    if (mask & TG_MASK_HEADERS) patch->headers = take_changes(reader, &patch->header_count);
    if (mask & TG_MASK_ATTRIBUTES) patch->attributes = take_changes(reader, &patch->attribute_count);
    if (patch->has_event_time) patch->event_time = (int64_t)tg_read_64(take(reader, 8));
}

static tg_test_patch *patches(uint32_t count) {
    tg_test_patch *all = (tg_test_patch *)tg_arena_take(&tg_test_batch_memory, count * sizeof *all);
    memset(all, 0, count * sizeof *all);
    return all;
}

static void take_outcome(reader *reader, uint8_t action, tg_test_outcome *outcome) {
    memset(outcome, 0, sizeof *outcome);
    outcome->action = (tg_test_action)action;
    switch (action) {
    case TG_PASSED:
    case TG_DROPPED: return;
    case TG_REPLACED:
    case TG_ROUTED: {
        tg_test_patch *patch = patches(1);
        if (action == TG_ROUTED) patch->output = take_output(reader);
        take_patch(reader, patch);
        outcome->patches = patch;
        outcome->patch_count = 1;
        return;
    }
    case TG_SPLIT_UP: {
        uint32_t count = tg_read_32(take(reader, 4));
        check(reader, count <= TG_MAX_PIECES, "a split has more than 4,095 pieces");
        if (reader->wrong) return;
        tg_test_patch *pieces = patches(count);
        for (uint32_t piece = 0; piece < count; piece++) {
            pieces[piece].output = take_output(reader);
            take_patch(reader, &pieces[piece]);
        }
        outcome->patches = pieces;
        outcome->patch_count = count;
        return;
    }
    case TG_RETRIED: outcome->retry_milliseconds = tg_read_32(take(reader, 4)); /* fall through */
    case TG_DEAD_LETTERED: outcome->reason = take_text(reader); return;
    default: check(reader, false, "an action is unknown");
    }
}

// Where a part of an answer lies; NULL if it is not within it.
static const uint8_t *part(tg_bytes answer, uint32_t offset, uint64_t length) {
    return offset <= answer.length && length <= answer.length - offset ? answer.at + offset : NULL;
}

static const char *header_is_wrong(tg_bytes answer, uint32_t records) {
    if (answer.length < TG_ANSWER_HEADER || memcmp(answer.at, "TGO\2", 4) != 0) return "the answer is none of layout 2";
    if (tg_read_32(answer.at + 4) != answer.length) return "the answer has another length than it says";
    if (tg_read_32(answer.at + 8) != TG_ANSWER_HEADER) return "the header has another length";
    if (tg_read_32(answer.at + 12) != 0) return "a flag is unknown";
    if (tg_read_32(answer.at + 16) != records) return "there is another number of outcomes than of records";
    return NULL;
}

const char *tg_test_decode(tg_bytes answer, uint32_t records, tg_test_outcome *outcomes) {
    const char *wrong = header_is_wrong(answer, records);
    if (wrong) return wrong;
    const uint8_t *actions = part(answer, tg_read_32(answer.at + 20), records);
    uint32_t length = tg_read_32(answer.at + 28);
    const uint8_t *payloads = part(answer, tg_read_32(answer.at + 24), length);
    if (!actions || !payloads) return "a part lies outside of the answer";
    reader reader = {payloads, payloads + length, NULL};
    for (uint32_t record = 0; record < records && !reader.wrong; record++) {
        take_outcome(&reader, actions[record], &outcomes[record]);
    }
    check(&reader, reader.at == reader.end, "bytes are left behind the last payload");
    return reader.wrong;
}
