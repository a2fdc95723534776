// The results of a row from its chunks.

@group(0) @binding(1) var<storage, read> logits: array<vec4<u32>>;       // [samples, stride4], bits of f32
@group(0) @binding(2) var<storage, read> scratch: array<vec2<u32>>;      // [samples, row_scratch()]
@group(0) @binding(3) var<storage, read_write> results: array<vec2<u32>>; // [samples] (token, log-probability), then
                                                                         // [samples, TOP] of the likeliest

// The token of a row that is not searched: the greatest, or the best that its chunks have drawn.
fn token_of_chunks(row: u32, lane: u32, greatest: vec2<u32>) -> u32 {
    if (rows[row].inverse == 0.0) {
        return greatest.y;
    }
    var best = vec2<u32>(0u, NONE);
    for (var chunk = first_of(lane); chunk < params.chunks; chunk += STEP) {
        best = greater(best, scratch[drawn_at(row, chunk)]);
    }
    return share_greatest(lane, best).y;
}

// Writes the token, with its log-probability and the likeliest tokens where asked for.
fn finish(row: u32, lane: u32, greatest: vec2<u32>, drawn: u32) {
    let token = select(drawn, NONE, greatest.x == 0u);
    var logprob = 0.0;
    if (rows[row].logprobs > 0u) {
        let most = number(greatest.x);
        var sum = 0.0;
        for (var chunk = first_of(lane); chunk < params.chunks; chunk += STEP) {
            let head = scratch[head_at(row, chunk)];
            if (head.x > 0u) {
                let part = bitcast<f32>(scratch[head_at(row, chunk) + 1u].x);
                sum += part * exp(max(number(head.x) - most, -88.0));
            }
        }
        let total = logarithm(vec4<f32>(share_sum(lane, sum))).x;
        let known = min(token, params.vocabulary - 1u);
        logprob = number(keys_at(row, known / 4u)[known % 4u]) - most - total;
        // The chunks' lists are ordered; the next of the row is the greatest after the one before.
        let wanted = rows[row].logprobs - 1u;
        var before = vec2<u32>(NONE, 0u);
        for (var n = 0u; n < wanted; n++) {
            var best = vec2<u32>(0u, NONE);
            for (var chunk = first_of(lane); chunk < params.chunks; chunk += STEP) {
                for (var i = 0u; i < wanted; i++) {
                    let pair = scratch[top_at(row, chunk) + i];
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
