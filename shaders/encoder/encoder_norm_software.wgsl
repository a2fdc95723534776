// LayerNorm for software adapters. Invocation: one row. Grid: (rows / LANES).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.x * LANES + lane;
    if (row >= step.rows) {
        return;
    }
    let start = row * params.width4;
    let addend = addend_row(row) * params.width4;
    var sum = 0.0;
    for (var k = 0u; k < params.width4; k++) {
        let x = stream[start + k] + addends[addend + k];
        stream[start + k] = x;
        sum += sum4(x);
    }
    let mean = mean_of(sum);
    var squares = 0.0;
    for (var k = 0u; k < params.width4; k++) {
        let x = centred(stream[start + k], mean, k);
        squares += dot(x, x);
    }
    let scale = inverseSqrt(squares / f32(params.width) + params.epsilon);
    for (var k = 0u; k < params.width4; k++) {
        let x = centred(stream[start + k], mean, k);
        put(start + k, x * scale * weights[k] + weights[params.width4 + k]);
    }
}
