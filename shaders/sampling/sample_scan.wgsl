// Everything that is done to the logits of a chunk, in place, and what is to be known of them: penalties and bias, then the
// mask; the greatest logit and, where log-probabilities are asked for, the sum of exp(logit - greatest) and the likeliest
// tokens. For a greedy token this is the only pass over the logits. Task: a chunk. Grid: (tasks, rows).

@group(0) @binding(1) var<storage, read_write> logits: array<vec4<u32>>;  // [samples, stride4], bits of f32
@group(0) @binding(2) var<storage, read_write> scratch: array<vec2<u32>>; // [samples, row_scratch()]
@group(0) @binding(5) var<storage, read> masks: array<u32>;               // [masks, vocabulary / 32]
// (token, 2 * count of the token in the answer + whether it was seen at all, bits of the bias, 1 for a change of a token that
// no kept adjustment has)
@group(0) @binding(6) var<storage, read> lists: array<vec4<u32>>;

// Where in a list, from `first` to `end`, the tokens from `token` on begin.
fn list_from(first: u32, end: u32, token: u32) -> u32 {
    var low = first;
    var high = end;
    while (low < high) {
        let middle = low + (high - low) / 2u;
        if (lists[middle].x < token) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

// A kept adjustment, or what it has changed to.
fn latest(row: u32, kept: vec4<u32>) -> vec4<u32> {
    let end = rows[row].first_change + rows[row].changes;
    let at = list_from(rows[row].first_change, end, kept.x);
    if (at < end) {
        let change = lists[at];
        if (change.x == kept.x) {
            return change;
        }
    }
    return kept;
}

fn adjusted(row: u32, bits: u32, entry: vec4<u32>) -> u32 {
    let key = keys(vec4<u32>(bits)).x;
    if (key == 0u) {
        return bits;
    }
    var logit = logits_of(vec4<u32>(key)).x;
    if ((entry.y & 1u) == 1u) {
        logit = logit * select(rows[row].repetition, rows[row].inverse_repetition, logit > 0.0);
    }
    let count = entry.y >> 1u;
    logit = logit - rows[row].frequency * f32(count);
    if (count > 0u) {
        logit = logit - rows[row].presence;
    }
    logit = clamp(logit + bitcast<f32>(entry.z), -3.4028234e38, 3.4028234e38);
    return bitcast<u32>(logit);
}

// Adjusts the tokens of a chunk by a list. Who comes to the first adjustment of four neighbours adjusts all of them, so that
// no vector is written by two. Of changes only those count that no kept adjustment has.
fn adjust(row: u32, chunk: u32, lane: u32, first: u32, count: u32, changes: bool) {
    let end4 = chunk_end(chunk);
    let end = first + count;
    let begin = list_from(first, end, chunk * params.chunk4 * 4u);
    for (var at = begin + first_of(lane); at < end; at += STEP) {
        let at4 = lists[at].x / 4u;
        if (at4 >= end4) {
            break;
        }
        if (at > begin && lists[at - 1u].x / 4u == at4) {
            continue;
        }
        let place = row * params.stride4 + at4;
        var four = logits[place];
        for (var next = at; next < min(end, at + 4u); next++) {
            let entry = lists[next];
            if (entry.x / 4u != at4) {
                break;
            }
            if (!changes) {
                four[entry.x % 4u] = adjusted(row, four[entry.x % 4u], latest(row, entry));
            } else if (entry.w == 1u) {
                four[entry.x % 4u] = adjusted(row, four[entry.x % 4u], entry);
            }
        }
        logits[place] = four;
    }
}

// Tokens that the mask leaves out become impossible.
fn leave_out(row: u32, chunk: u32, lane: u32) {
    let words = (params.vocabulary + 31u) / 32u;
    let first = (rows[row].mask - 1u) * words;
    let end = chunk_end(chunk);
    for (var at4 = chunk * params.chunk4 + first_of(lane); at4 < end; at4 += STEP) {
        let bits = masks[first + at4 / 8u] >> (at4 % 8u * 4u);
        if ((bits & 15u) != 15u) {
            let allowed = (vec4<u32>(bits) & vec4<u32>(1u, 2u, 4u, 8u)) != vec4<u32>();
            let place = row * params.stride4 + at4;
            logits[place] = select(vec4<u32>(0xff800000u), logits[place], allowed);
        }
    }
}

// The likeliest tokens of the chunk after its greatest, each by a pass for what comes after the one before.
fn likeliest(row: u32, chunk: u32, lane: u32, greatest: vec2<u32>) {
    let wanted = rows[row].logprobs - 1u;
    let end = chunk_end(chunk);
    var before = greatest;
    for (var n = 0u; n < wanted; n++) {
        if (speaks(lane)) {
            scratch[top_at(row, chunk) + n] = before;
        }
        var best = vec2<u32>(0u, NONE);
        for (var at4 = chunk * params.chunk4 + first_of(lane); at4 < end; at4 += STEP) {
            let key = keys_at(row, at4);
            let tokens = vec4<u32>(at4 * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let same = select(vec4<u32>(), key, tokens > vec4<u32>(before.y));
            let after = select(select(vec4<u32>(), same, key == vec4<u32>(before.x)), key, key < vec4<u32>(before.x));
            best = greatest4(best, after, at4);
        }
        before = share_greatest(lane, best);
    }
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y;
    let chunk = task_of(group.x, lane);
    if (chunk >= params.chunks) {
        return;
    }
    if (rows[row].kept > 0u) {
        adjust(row, chunk, lane, rows[row].first_kept, rows[row].kept, false);
        share_logits();
    }
    if (rows[row].changes > 0u) {
        adjust(row, chunk, lane, rows[row].first_change, rows[row].changes, true);
        share_logits();
    }
    if (rows[row].mask > 0u) {
        leave_out(row, chunk, lane);
    }
    let first = chunk * params.chunk4 + first_of(lane);
    let end = chunk_end(chunk);
    var best = vec2<u32>(0u, NONE);
    for (var at4 = first; at4 < end; at4 += STEP) {
        best = greatest4(best, keys_at(row, at4), at4);
    }
    best = share_greatest(lane, best);
    if (speaks(lane)) {
        scratch[head_at(row, chunk)] = best;
    }
    if (rows[row].logprobs > 0u) {
        let most = number(best.x);
        var sum = 0.0;
        for (var at4 = first; at4 < end; at4 += STEP) {
            let key = keys_at(row, at4);
            let mass = exp(max(numbers(key) - vec4<f32>(most), vec4<f32>(-88.0)));
            sum += dot(select(vec4<f32>(), vec4<f32>(1.0), key > vec4<u32>()), mass);
        }
        sum = share_sum(lane, sum);
        if (speaks(lane)) {
            scratch[head_at(row, chunk) + 1u] = vec2<u32>(bitcast<u32>(sum), 0u);
        }
        likeliest(row, chunk, lane, best);
    }
}
