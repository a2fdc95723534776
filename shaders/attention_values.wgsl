// Attention for software adapters, second half: softmax over the scores and the weighted sum of the values, four positions at a time.
// Invocation: 4 elements of one unit of one row, so that a value is read once for all heads of the unit; the softmax is recomputed
// in each lane. Grid: (stride / 4 / LANES, units, rows).

@group(0) @binding(2) var<storage, read> values: array<Kv>;              // [blocks, BLOCK, kv_heads, stride / 4]
@group(0) @binding(3) var<storage, read> scores: array<vec4<f32>>;       // [rows, heads, scratch / 4]
@group(0) @binding(5) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let d = group.x * LANES + lane;
    if (d >= params.stride4) {
        return;
    }
    let row = group.z;
    let entry = step.entries[row];
    let begin = first_seen(entry.z) & 0xfffffffcu;
    let quads = (entry.z - begin) / 4u + 1u;
    let scratch4 = params.scratch / 4u;
    let head = row * params.heads + group.y * HEADS;
    var highest: array<f32, HEADS>;
    var total: array<f32, HEADS>;
    var sums: array<vec4<f32>, HEADS>;
    for (var g = 0u; g < HEADS; g++) {
        var most = scores[(head + g) * scratch4];
        for (var p = 1u; p < quads; p++) {
            most = max(most, scores[(head + g) * scratch4 + p]);
        }
        highest[g] = max(max(most.x, most.y), max(most.z, most.w));
        total[g] = 0.0;
        sums[g] = vec4<f32>();
    }
    let stride = params.kv_heads * params.stride4;
    let own = kv_head(group.y) * params.stride4 + d;
    for (var p = 0u; p < quads; p++) {
        // Four positions of one block, as blocks begin at multiples of 4. Past the row's own position a value is read again, and
        // its weight is nothing.
        let position = begin + p * 4u;
        let place = paged(entry.x, position);
        let last = entry.z - position;
        let v0 = from_kv(values[place * stride + own]);
        let v1 = from_kv(values[(place + min(1u, last)) * stride + own]);
        let v2 = from_kv(values[(place + min(2u, last)) * stride + own]);
        let v3 = from_kv(values[(place + min(3u, last)) * stride + own]);
        for (var g = 0u; g < HEADS; g++) {
            let weight = exp(scores[(head + g) * scratch4 + p] - highest[g]);
            total[g] += weight.x + weight.y + weight.z + weight.w;
            sums[g] += weight.x * v0 + weight.y * v1 + weight.z * v2 + weight.w * v3;
        }
    }
    for (var g = 0u; g < HEADS; g++) {
        output[(head + g) * params.stride4 + d] = sums[g] / total[g];
    }
}
