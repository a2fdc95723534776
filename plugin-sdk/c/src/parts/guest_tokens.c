// What the host calls of an operator that handles tokens. Nothing here is for operators.

#define TOKENS "tidegate:operator/tokens@1.0.0#"

// As the canonical ABI has them.
typedef struct given_pair {
    list name, value;
} given_pair;

typedef struct piece {
    uint64_t lane;
    list text;
    bool is_last;
} piece;

typedef struct verdict {
    list text;
    bool has_end;
    uint8_t end;
} verdict;

static tg_buffer verdicts, through;

EXPORTED(TOKENS "open") const void *tg_guest_open(uint64_t number, const uint8_t *identity, size_t identity_length,
                                                  const uint8_t *model, size_t model_length, uint32_t choice,
                                                  uint32_t kind, uint32_t call, given_pair *given, size_t count) {
    // A pair of this SDK is as long as one of the ABI, and has the same.
    _Static_assert(sizeof(tg_pair) == sizeof(given_pair), "attributes are pairs");
    tg_lane opened;
    memset(&opened, 0, sizeof opened);
    opened.identity = tg_bytes_of(identity, identity_length);
    opened.model = tg_bytes_of(model, model_length);
    opened.choice = choice;
    opened.kind = (tg_lane_kind)kind;
    opened.call = call;
    opened.attributes = (const tg_pair *)given;
    opened.attribute_count = (uint32_t)count;
    bool is_open = tg_lane_open(&tg_the_tokens, number, &opened);
    for (size_t at = 0; at < count; at++) {
        given_back(given[at].name.at, given[at].name.length);
        given_back(given[at].value.at, given[at].value.length);
    }
    given_back(given, count);
    given_back(model, model_length);
    given_back(identity, identity_length);
    if (!is_open) return failed();
    result.is_failure = 0;
    return &result;
}

EXPORTED(TOKENS "step") const void *tg_guest_step(piece *pieces, size_t count) {
    verdicts.length = through.length = 0;
    verdict *made = (verdict *)(void *)tg_buffer_more(&verdicts, count * sizeof *made);
    bool is_right = true;
    for (size_t at = 0; at < count; at++) {
        tg_bytes text = tg_bytes_of(pieces[at].text.at, pieces[at].text.length);
        size_t from = through.length;
        tg_ending end = TG_NO_END;
        is_right = is_right && tg_lane_step(&tg_the_tokens, pieces[at].lane, text, pieces[at].is_last, &through, &end);
        given_back(text.at, text.length);
        made[at].text.length = (uint32_t)(through.length - from);
        made[at].has_end = end != TG_NO_END;
        made[at].end = (uint8_t)(end == TG_FILTERED);
    }
    given_back(pieces, count);
    if (!is_right) return failed();
    // It may have moved as it grew.
    size_t from = 0;
    for (size_t at = 0; at < count; at++) {
        made[at].text.at = through.at + from;
        from += made[at].text.length;
    }
    result.is_failure = 0;
    result.bytes.at = made;
    result.bytes.length = (uint32_t)count;
    return &result;
}

EXPORTED(TOKENS "close") void tg_guest_close(uint64_t number) { tg_lane_close(&tg_the_tokens, number); }
