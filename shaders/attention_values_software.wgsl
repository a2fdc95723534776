// Attention, second half, for software adapters: softmax over the scores and the weighted sum of the values, four positions
// at a time. Invocation: 4 elements of the GROUP query heads of one value head of one row, so that a value is read once for all
// of them; the softmax is recomputed in each lane. Grid: (stride / 4 / LANES, kv_heads, rows).

@group(0) @binding(1) var<storage, read> values: array<vec4<f32>>;       // [slots, context, kv_heads, stride / 4]
@group(0) @binding(2) var<storage, read> scores: array<vec4<f32>>;       // [rows, heads, scores / 4]
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let d = group.x * LANES + lane;
    if (d >= params.stride4) {
        return;
    }
    let row = group.z;
    let entry = step.entries[row];
    let quads = entry.z / 4u + 1u;
    let scores4 = params.scores / 4u;
    let head = row * params.heads + group.y * GROUP;
    var highest: array<f32, GROUP>;
    var total: array<f32, GROUP>;
    var sums: array<vec4<f32>, GROUP>;
    for (var g = 0u; g < GROUP; g++) {
        var most = scores[(head + g) * scores4];
        for (var p = 1u; p < quads; p++) {
            most = max(most, scores[(head + g) * scores4 + p]);
        }
        highest[g] = max(max(most.x, most.y), max(most.z, most.w));
        total[g] = 0.0;
        sums[g] = vec4<f32>();
    }
    // Past the row's own position a value is read again, and its weight is nothing.
    let value = cache_start(entry.x, group.y) + d;
    let stride = params.kv_heads * params.stride4;
    for (var p = 0u; p < quads; p++) {
        let v0 = values[value + (p * 4u) * stride];
        let v1 = values[value + min(p * 4u + 1u, entry.z) * stride];
        let v2 = values[value + min(p * 4u + 2u, entry.z) * stride];
        let v3 = values[value + min(p * 4u + 3u, entry.z) * stride];
        for (var g = 0u; g < GROUP; g++) {
            let weight = exp(scores[(head + g) * scores4 + p] - highest[g]);
            total[g] += weight.x + weight.y + weight.z + weight.w;
            sums[g] += weight.x * v0 + weight.y * v1 + weight.z * v2 + weight.w * v3;
        }
    }
    for (var g = 0u; g < GROUP; g++) {
        output[(head + g) * params.stride4 + d] = sums[g] / total[g];
    }
}
