// The greatest logit of a chunk and, where log-probabilities are asked for, the sum of exp(logit - greatest). For a greedy
// token this is the only pass over the logits. Task: a chunk. Grid: (tasks, rows).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y;
    let chunk = task_of(group.x, lane);
    if (chunk >= params.chunks) {
        return;
    }
    let first = chunk * params.chunk4 + first_of(lane);
    let end = chunk_end(chunk);
    var best = vec2<u32>(0u, NONE);
    for (var at4 = first; at4 < end; at4 += STEP) {
        best = greatest4(best, keys_at(row, at4), at4);
    }
    best = share_greatest(lane, best);
    var sum = 0.0;
    if (rows[row].logprobs > 0u) {
        let most = number(best.x);
        for (var at4 = first; at4 < end; at4 += STEP) {
            let key = keys_at(row, at4);
            let mass = exp(max(numbers(key) - vec4<f32>(most), vec4<f32>(-88.0)));
            sum += dot(select(vec4<f32>(), vec4<f32>(1.0), key > vec4<u32>()), mass);
        }
        sum = share_sum(lane, sum);
    }
    if (speaks(lane)) {
        scratch[head_at(row, chunk)] = vec4<u32>(best, bitcast<u32>(sum), 0u);
    }
}
