// Attention, second half, for GPUs: softmax over the scores and the weighted sum of the values.
// Workgroup: one query head of one row. Grid: (1, heads, rows). A head is at most LANES * 4 elements.

@group(0) @binding(1) var<storage, read> values: array<vec4<f32>>;       // [slots, context, kv_heads, stride / 4]
@group(0) @binding(2) var<storage, read> scores: array<f32>;             // [rows, heads, scores]
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

var<workgroup> partial: array<f32, LANES>;
var<workgroup> partial4: array<vec4<f32>, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.z;
    let entry = step.entries[row];
    let positions = entry.z + 1u;
    let head = row * params.heads + group.y;
    let start = head * params.scores;

    // The highest score.
    var highest = scores[start];
    for (var p = lane; p < positions; p += LANES) {
        highest = max(highest, scores[start + p]);
    }
    partial[lane] = highest;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            partial[lane] = max(partial[lane], partial[lane + half]);
        }
        workgroupBarrier();
    }
    highest = partial[0];
    workgroupBarrier();

    // The sum of the weights.
    var total = 0.0;
    for (var p = lane; p < positions; p += LANES) {
        total += exp(scores[start + p] - highest);
    }
    partial[lane] = total;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            partial[lane] += partial[lane + half];
        }
        workgroupBarrier();
    }
    total = partial[0];

    // The weighted sum of the values: lanes lie along the head first, then along the positions.
    let split = lane / params.stride4;
    let d = lane % params.stride4;
    let splits = LANES / params.stride4;
    let value = cache_start(entry.x, group.y / GROUP) + d;
    var sum = vec4<f32>();
    if (split < splits) {
        for (var p = split; p < positions; p += splits) {
            sum += exp(scores[start + p] - highest) * values[value + p * params.kv_heads * params.stride4];
        }
    }
    partial4[lane] = sum;
    workgroupBarrier();
    if (lane < params.stride4) {
        for (var s = 1u; s < splits; s++) {
            sum += partial4[s * params.stride4 + lane];
        }
        output[head * params.stride4 + lane] = sum / total;
    }
}
