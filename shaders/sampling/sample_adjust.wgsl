// Penalties and bias, in place. Invocation: one adjustment. Grid: (adjustments / LANES).

struct Adjustments {
    count: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
    // (index of the logit, row, 2 * count of the token in the answer + whether it was seen at all, bits of the bias)
    entries: array<vec4<u32>>,
}

@group(0) @binding(1) var<storage, read> adjustments: Adjustments;
@group(0) @binding(2) var<storage, read_write> logits: array<u32>; // [samples, stride4 * 4], bits of f32

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = group.x * LANES + lane;
    if (index >= adjustments.count) {
        return;
    }
    let entry = adjustments.entries[index];
    let key = keys(vec4<u32>(logits[entry.x])).x;
    if (key == 0u) {
        return;
    }
    let row = rows[entry.y];
    var logit = logits_of(vec4<u32>(key)).x;
    if ((entry.z & 1u) == 1u) {
        logit = logit * select(row.repetition, row.inverse_repetition, logit > 0.0);
    }
    let count = entry.z >> 1u;
    logit = logit - row.frequency * f32(count);
    if (count > 0u) {
        logit = logit - row.presence;
    }
    logit = clamp(logit + bitcast<f32>(entry.w), -3.4028234e38, 3.4028234e38);
    logits[entry.x] = bitcast<u32>(logit);
}
