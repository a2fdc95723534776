// The likeliest tokens of a chunk, each by a pass for what comes after the one before. Task: a chunk. Grid: (tasks, rows).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y;
    let chunk = task_of(group.x, lane);
    if (chunk >= params.chunks || rows[row].logprobs < 2u) {
        return;
    }
    let wanted = rows[row].logprobs - 1u;
    let first = chunk * params.chunk4 + first_of(lane);
    let end = chunk_end(chunk);
    var before = scratch[head_at(row, chunk)].xy;
    var even = before;
    for (var n = 1u; n <= wanted; n++) {
        var best = vec2<u32>(0u, NONE);
        for (var at4 = first; at4 < end; at4 += STEP) {
            let key = keys_at(row, at4);
            let tokens = vec4<u32>(at4 * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let same = select(vec4<u32>(), key, tokens > vec4<u32>(before.y));
            let after = select(select(vec4<u32>(), same, key == vec4<u32>(before.x)), key, key < vec4<u32>(before.x));
            best = greatest4(best, after, at4);
        }
        before = share_greatest(lane, best);
        if (n % 2u == 0u) {
            even = before;
        } else if (speaks(lane)) {
            scratch[top_at(row, chunk) + n / 2u] = vec4<u32>(even, before);
        }
    }
    if (wanted % 2u == 1u) {
        return;
    }
    // An odd number of them in all: the last stands alone.
    if (speaks(lane) && wanted / 2u < TOP / 2u) {
        scratch[top_at(row, chunk) + wanted / 2u] = vec4<u32>(even, 0u, NONE);
    }
}
