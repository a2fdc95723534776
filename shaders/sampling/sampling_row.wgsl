// What is known of a row after its chunks were scanned.

// (key, token) of the row's greatest logit.
fn row_greatest(row: u32, lane: u32) -> vec2<u32> {
    var best = vec2<u32>(0u, NONE);
    for (var chunk = first_of(lane); chunk < params.chunks; chunk += STEP) {
        best = greater(best, scratch[head_at(row, chunk)]);
    }
    return share_greatest(lane, best);
}
