// The token of a row from its chunks, with its log-probability and the likeliest tokens where asked for. Task: a row.
// Grid: (tasks).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = task_of(group.x, lane);
    if (row >= params.samples) {
        return;
    }
    let greatest = row_greatest(row, lane);
    var token = greatest.y;
    if (rows[row].inverse > 0.0) {
        var best = vec2<u32>(0u, NONE);
        for (var chunk = first_of(lane); chunk < params.chunks; chunk += STEP) {
            best = greater(best, scratch[drawn_at(row, chunk)].xy);
        }
        token = share_greatest(lane, best).y;
    }
    if (greatest.x == 0u) {
        token = NONE;
    }
    var logprob = 0.0;
    if (rows[row].logprobs > 0u) {
        let most = number(greatest.x);
        var sum = 0.0;
        for (var chunk = first_of(lane); chunk < params.chunks; chunk += STEP) {
            let head = scratch[head_at(row, chunk)];
            if (head.x > 0u) {
                sum += bitcast<f32>(head.z) * exp(max(number(head.x) - most, -88.0));
            }
        }
        let total = logarithm(vec4<f32>(share_sum(lane, sum))).x;
        let drawn = min(token, params.vocabulary - 1u);
        logprob = number(keys_at(row, drawn / 4u)[drawn % 4u]) - most - total;
        // The chunks' lists are ordered; the next of the row is the greatest after the one before.
        let wanted = rows[row].logprobs - 1u;
        var before = vec2<u32>(NONE, 0u);
        for (var n = 0u; n < wanted; n++) {
            var best = vec2<u32>(0u, NONE);
            for (var chunk = first_of(lane); chunk < params.chunks; chunk += STEP) {
                for (var i = 0u; i < wanted; i++) {
                    let two = scratch[top_at(row, chunk) + i / 2u];
                    let pair = select(two.zw, two.xy, i % 2u == 0u);
                    if (pair.x < before.x || (pair.x == before.x && pair.y > before.y)) {
                        best = greater(best, pair);
                        break;
                    }
                }
            }
            before = share_greatest(lane, best);
            if (speaks(lane)) {
                let found = select(NONE, before.y, before.x > 0u);
                let value = number(before.x) - most - total;
                results[params.samples + row * TOP + n] = vec2<u32>(found, bitcast<u32>(value));
            }
        }
    }
    if (speaks(lane)) {
        results[row] = vec2<u32>(token, bitcast<u32>(logprob));
    }
}
