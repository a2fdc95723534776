// What a chunk has to say to the draw: the greatest of logit / temperature + noise (Gumbel-max). Of a row that top_k or top_p
// cut, which the last dispatch searches: the chunk's likeliest tokens, as many as its list holds. Task: a chunk. Grid:
// (tasks, rows).

@group(0) @binding(1) var<storage, read> logits: array<vec4<u32>>;        // [samples, stride4], bits of f32
@group(0) @binding(2) var<storage, read_write> scratch: array<vec2<u32>>; // [samples, row_scratch()]

// How far below the greatest logit a token is, finer near it. It only says what is listed; what is not listed is known by
// key, so that nothing hangs on its rounding.
fn bin_of(scaled: vec4<f32>) -> vec4<u32> {
    return vec4<u32>(min(sqrt(scaled) * (f32(BINS) / 9.5), vec4<f32>(f32(BINS - 1u))));
}

fn list(row: u32, chunk: u32, lane: u32, greatest: u32) {
    let most = vec4<f32>(number(greatest));
    let reach = vec4<f32>(rows[row].reach);
    let inverse = rows[row].inverse;
    let first = chunk * params.chunk4 + first_of(lane);
    let end = chunk_end(chunk);
    // The share that top_p keeps is one of all tokens, unless top_k has cut first.
    let weighs = rows[row].top_p < 1.0 && !counts_tokens(row);
    clear_bins(lane);
    var sum = 0.0;
    for (var at4 = first; at4 < end; at4 += STEP) {
        let key = keys_at(row, at4);
        let scaled = min(most - numbers(key), reach) * inverse;
        let bin = bin_of(scaled);
        for (var i = 0u; i < 4u; i++) {
            if (key[i] > 0u) {
                count_bin(bin[i]);
            }
        }
        if (weighs) {
            sum += dot(select(vec4<f32>(), vec4<f32>(1.0), key > vec4<u32>()), exp(-scaled));
        }
    }
    sum = share_sum(lane, sum);
    let bins = bins_within(lane, LISTED);
    var count = 0u;
    if (!ALONE) {
        for (var at4 = first; at4 < end; at4 += STEP) {
            let key = keys_at(row, at4);
            let bin = bin_of(min(most - numbers(key), reach) * inverse);
            let listed = select(vec4<u32>(), key, bin < vec4<u32>(bins)) > vec4<u32>();
            count += dot(select(vec4<u32>(), vec4<u32>(1u), listed), vec4<u32>(1u));
        }
    }
    let before = share_before(lane, count);
    var place = before.x;
    var rest = 0u;
    for (var at4 = first; at4 < end; at4 += STEP) {
        let key = keys_at(row, at4);
        let bin = bin_of(min(most - numbers(key), reach) * inverse);
        let listed = select(vec4<u32>(), key, bin < vec4<u32>(bins));
        let others = select(key, vec4<u32>(), listed > vec4<u32>());
        rest = max(rest, max(max(others.x, others.y), max(others.z, others.w)));
        if (any(listed > vec4<u32>())) {
            for (var i = 0u; i < 4u; i++) {
                if (listed[i] > 0u) {
                    if (place < LISTED) {
                        scratch[list_at(row, chunk) + place] = vec2<u32>(listed[i], at4 * 4u + i);
                    }
                    place += 1u;
                }
            }
        }
    }
    rest = share_most(lane, rest);
    var total = before.y;
    if (ALONE) {
        total = place;
    }
    if (speaks(lane)) {
        // Should two passes have rounded bins differently, a list that has overflown is none.
        let held = total <= LISTED;
        scratch[drawn_at(row, chunk)] = vec2<u32>(select(0u, total, held), select(greatest, rest, held));
        scratch[drawn_at(row, chunk) + 1u] = vec2<u32>(bitcast<u32>(sum), 0u);
    }
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y;
    let chunk = task_of(group.x, lane);
    if (chunk >= params.chunks || rows[row].inverse == 0.0) {
        return;
    }
    let greatest = row_greatest(row, lane).x;
    if (rows[row].levels > 0u) {
        list(row, chunk, lane, greatest);
        return;
    }
    let draw = draw_of(row, greatest, LEAST);
    let end = chunk_end(chunk);
    var best = vec2<u32>(0u, NONE);
    for (var at4 = chunk * params.chunk4 + first_of(lane); at4 < end; at4 += STEP) {
        best = best_score(best, draw, keys_at(row, at4), at4);
    }
    best = share_greatest(lane, best);
    if (speaks(lane)) {
        scratch[drawn_at(row, chunk)] = best;
    }
}
