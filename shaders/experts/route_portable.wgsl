// Choosing experts on GPUs. Workgroup: one row; a lane counts for each of its experts how many come before it. Grid: (rows).

var<workgroup> own: array<f32, MOST>;
var<workgroup> picked: array<u32, MOST>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.x;
    for (var e = lane; e < params.experts; e += LANES) {
        own[e] = logits[row * params.stride + e];
    }
    workgroupBarrier();
    for (var e = lane; e < params.experts; e += LANES) {
        let key = key_of(own[e]);
        var before = 0u;
        for (var other = 0u; other < params.experts; other++) {
            let others = key_of(own[other]);
            before += select(0u, 1u, others > key || (others == key && other < e));
        }
        if (before < params.chosen) {
            picked[before] = e;
        }
    }
    workgroupBarrier();
    // Every lane adds up the same, in order.
    let highest = own[picked[0]];
    var sum = 0.0;
    if (params.normalized == 1u) {
        for (var s = 0u; s < params.chosen; s++) {
            sum += exp(own[picked[s]] - highest);
        }
    } else {
        for (var e = 0u; e < params.experts; e++) {
            sum += exp(own[e] - highest);
        }
    }
    for (var s = lane; s < params.chosen; s += LANES) {
        let weight = exp(own[picked[s]] - highest) / sum;
        routes[row * params.slots + s] = vec2<u32>(picked[s], bitcast<u32>(weight));
    }
    if (lane == 0u) {
        write_shared(row);
    }
}
