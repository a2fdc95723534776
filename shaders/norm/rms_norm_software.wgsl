// RMSNorm for software adapters. Invocation: one row. Grid: (rows / LANES).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.x * LANES + lane;
    if (row >= select(step.rows, step.samples, params.gather == 1u)) {
        return;
    }
    let start = source_row(row) * params.width4;
    var squares = 0.0;
    for (var k = 0u; k < params.width4; k++) {
        let x = input[start + k];
        squares += dot(x, x);
    }
    let scale = inverseSqrt(squares / params.width + params.epsilon);
    for (var k = 0u; k < params.width4; k++) {
        norm_store(row * params.width4 + k, input[start + k] * scale * weight[k]);
    }
}
