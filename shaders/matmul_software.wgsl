// Matmul for software adapters. Invocation: ROWS rows by 4 columns in registers, no shared memory, no barrier.
// Rows are the same for a whole workgroup, columns differ by lane. Grid: (columns / 4 / LANES, rows / ROWS).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column4 = group.x * LANES + lane;
    if (column4 >= params.columns4) {
        return;
    }
    let rows = row_count();
    let width4 = params.width4;
    let first = group.y * ROWS;
    let column = column4 * 4u * width4;
    // A tile that hangs over the last row computes that row again and does not store it.
    var starts: array<u32, ROWS>;
    var sums: array<vec4<f32>, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        starts[r] = min(first + r, rows - 1u) * width4;
        sums[r] = vec4<f32>();
    }
    for (var k = 0u; k < width4; k++) {
        let w0 = weight4(column + k);
        let w1 = weight4(column + width4 + k);
        let w2 = weight4(column + 2u * width4 + k);
        let w3 = weight4(column + 3u * width4 + k);
        for (var r = 0u; r < ROWS; r++) {
            let x = input[starts[r] + k];
            sums[r] += vec4<f32>(dot(w0, x), dot(w1, x), dot(w2, x), dot(w3, x));
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        if (first + r < rows) {
            store(first + r, column4, sums[r]);
        }
    }
}
