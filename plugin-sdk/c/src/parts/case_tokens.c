// Cases of what handles tokens: a text in pieces, and what goes on of it.

#ifdef TIDEGATE_TOKENS

static tg_lane lane_of(tg_json json) {
    tg_lane lane;
    memset(&lane, 0, sizeof lane);
    tg_json kind = tg_json_member(json, "lane"), call = tg_json_member(kind, "arguments");
    tg_json model = tg_json_member(json, "model"), record = tg_json_member(json, "record");
    if (call.at) {
        lane.kind = TG_ARGUMENTS;
        lane.call = (uint32_t)unsigned_of(call, 0);
    } else if (kind.at && tg_equals(text_of(kind), "reasoning")) {
        lane.kind = TG_REASONING;
    } else if (kind.at && !tg_equals(text_of(kind), "content")) {
        fail("a lane is %.*s, expected content, reasoning or arguments", TG_SHOW(tg_json_source(kind)));
    }
    if (model.at) lane.model = text_of(model);
    if (record.at) lane.identity = text_of(record);
    lane.choice = (uint32_t)unsigned_of(tg_json_member(json, "choice"), 0);
    lane.attributes = pairs_of(tg_json_member(json, "attributes"), &lane.attribute_count);
    return lane;
}

static bool is_same(const tg_test_through *one, const tg_test_through *other) {
    return one->end == other->end && tg_same(one->text, other->text);
}

static const char *end_of(tg_ending end) {
    return end == TG_STOP ? "stop" : end == TG_FILTERED ? "filtered" : "none";
}

// Gives the same text in other pieces: in sum the same goes on.
static void run_again(const tg_lane *lane, const char *cut, const tg_bytes *pieces, uint32_t count,
                      const tg_test_through *sum) {
    tg_test_through other;
    uint64_t number = tg_test_open(lane);
    if (!number || !tg_test_run_lane(number, pieces, count, &other)) {
        fail("the same text %s fails: %.*s", cut, TG_SHOW(tg_test_failure()));
    } else if (!is_same(&other, sum)) {
        fail("the same text %s: expected \"%.*s\" and the end %s, came \"%.*s\" and %s", cut, TG_SHOW(sum->text),
             end_of(sum->end), TG_SHOW(other.text), end_of(other.end));
    }
}

static void run_whole(const tg_lane *lane, const tg_bytes *pieces, uint32_t count, const tg_test_through *sum) {
    size_t length = 0;
    for (uint32_t at = 0; at < count; at++) length += pieces[at].length;
    uint8_t *whole = (uint8_t *)room(length + 1, 1), *to = whole;
    for (uint32_t at = 0; at < count; to += pieces[at++].length) tg_copy(to, pieces[at]);
    tg_bytes text = tg_bytes_of(whole, length), *each = (tg_bytes *)room(length + 1, sizeof *each);
    run_again(lane, "in one piece", &text, 1, sum);
    uint32_t characters = 0;
    for (size_t at = 0; at < length; at++) {
        // The bytes of a character stay together.
        if ((whole[at] & 0xc0) != 0x80) each[characters++] = tg_bytes_of(whole + at, 0);
        each[characters - 1].length++;
    }
    if (characters == 0) each[characters++] = text;
    run_again(lane, "character by character", each, characters, sum);
    // As every lane of a pipeline ends: it is known late that nothing more comes.
    tg_bytes apart[] = {text, tg_str("")};
    run_again(lane, "with its end apart", apart, 2, sum);
}

// What went on of each piece, against what was to.
static void compare_through(tg_json expected, const tg_test_through *each, uint32_t count, tg_bytes sum) {
    if (tg_json_kind_of(expected) != TG_JSON_ARRAY) {
        if (!tg_same(text_of(expected), sum)) {
            fail("through: expected %.*s, came \"%.*s\"", TG_SHOW(tg_json_source(expected)), TG_SHOW(sum));
        }
        return;
    }
    if (count_of(expected) != count) fail("through: expected %u pieces, came %u", count_of(expected), count);
    for (uint32_t at = 0; at < count && !is_failed; at++) {
        if (tg_same(text_of(entry_of(expected, at)), each[at].text)) continue;
        fail("through[%u]: expected %.*s, came \"%.*s\"", at + 1, TG_SHOW(tg_json_source(entry_of(expected, at))),
             TG_SHOW(each[at].text));
    }
}

static void run_tokens(tg_json json, tg_json failure, tg_json log) {
    tg_arena_clear(&tg_test_batch_memory);
    tg_lane lane = lane_of(json);
    tg_json given = tg_json_member(json, "pieces"), through = tg_json_member(json, "through");
    tg_json wanted = tg_json_member(json, "end");
    uint32_t count = count_of(given), came = 0;
    tg_bytes *pieces = (tg_bytes *)room(count, sizeof *pieces);
    for (uint32_t at = 0; at < count; at++) pieces[at] = text_of(entry_of(given, at));
    if (is_failed) return;
    tg_test_through *each = (tg_test_through *)room(count + 1, sizeof *each), sum = {tg_null(), TG_NO_END};
    uint64_t number = tg_test_open(&lane);
    bool is_right = number != 0;
    tg_writer all = {NULL, 0, 0};
    for (; is_right && came < count && sum.end == TG_NO_END; came += is_right) {
        is_right = tg_test_step(number, pieces[came], came + 1 == count, &each[came]);
        sum.end = each[came].end;
    }
    if (number) tg_lane_close(&tg_the_tokens, number);
    if (failure.at) {
        if (is_right) fail("expected that it fails, it does not");
        else compare_failure(failure);
    } else if (!is_right) {
        fail("it fails: %.*s", TG_SHOW(tg_test_failure()));
    } else if (!through.at) {
        fail("it expects neither what goes through nor a failure");
    }
    if (log.at) compare_log(log);
    if (failure.at || is_failed) return;
    for (uint32_t at = 0; at < came; at++) tg_write(&all, each[at].text);
    // Beyond this step's memory.
    sum.text = tg_copy_into(&tg_test_case_memory, tg_written(&all));
    compare_through(through, each, came, sum.text);
    bool is_wanted = wanted.at && tg_json_kind_of(wanted) != TG_JSON_NULL;
    if (is_wanted ? !tg_equals(text_of(wanted), end_of(sum.end)) : sum.end != TG_NO_END) {
        fail("end: expected %s, came %s", is_wanted ? "another" : "none", end_of(sum.end));
    }
    run_whole(&lane, pieces, count, &sum);
}

#else

static void run_tokens(tg_json json, tg_json failure, tg_json log) {
    (void)json;
    (void)failure;
    (void)log;
    fail("the operator handles no tokens: it is compiled without TIDEGATE_TOKENS, which handlers = [\"tokens\"] sets");
}

#endif
