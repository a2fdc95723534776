// Attention, second half, for software adapters: softmax over the scores and the weighted sum of the values.
// Invocation: 4 elements of the GROUP query heads of one value head of one row, so that a value is read once for all of them;
// the softmax is recomputed in each lane. Grid: (stride / 4 / LANES, kv_heads, rows).

@group(0) @binding(1) var<storage, read> values: array<vec4<f32>>;       // [slots, context, kv_heads, stride / 4]
@group(0) @binding(2) var<storage, read> scores: array<f32>;             // [rows, heads, context]
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let d = group.x * LANES + lane;
    if (d >= params.stride4) {
        return;
    }
    let row = group.z;
    let entry = step.entries[row];
    let positions = entry.z + 1u;
    let head = row * params.heads + group.y * GROUP;
    var highest: array<f32, GROUP>;
    var total: array<f32, GROUP>;
    var sums: array<vec4<f32>, GROUP>;
    for (var g = 0u; g < GROUP; g++) {
        highest[g] = scores[(head + g) * params.context];
        total[g] = 0.0;
        sums[g] = vec4<f32>();
    }
    for (var p = 1u; p < positions; p++) {
        for (var g = 0u; g < GROUP; g++) {
            highest[g] = max(highest[g], scores[(head + g) * params.context + p]);
        }
    }
    var value = cache_start(entry.x, group.y) + d;
    for (var p = 0u; p < positions; p++) {
        let v = values[value];
        for (var g = 0u; g < GROUP; g++) {
            let weight = exp(scores[(head + g) * params.context + p] - highest[g]);
            total[g] += weight;
            sums[g] += weight * v;
        }
        value += params.kv_heads * params.stride4;
    }
    for (var g = 0u; g < GROUP; g++) {
        output[(head + g) * params.stride4 + d] = sums[g] / total[g];
    }
}
