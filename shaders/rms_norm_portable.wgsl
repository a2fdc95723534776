// RMSNorm for GPUs. Workgroup: one row. Grid: (rows).

var<workgroup> partial: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let start = source_row(group.x) * params.width4;
    var squares = 0.0;
    for (var k = lane; k < params.width4; k += LANES) {
        let x = input[start + k];
        squares += dot(x, x);
    }
    partial[lane] = squares;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            partial[lane] += partial[lane + half];
        }
        workgroupBarrier();
    }
    let scale = inverseSqrt(partial[0] / params.width + params.epsilon);
    for (var k = lane; k < params.width4; k += LANES) {
        output[group.x * params.width4 + k] = input[start + k] * scale * weight[k];
    }
}
