// Matmul for GPUs and few rows. Workgroup: ROWS rows by 4 columns; its lanes share the width and reduce in workgroup memory.
// Grid: (columns / 4, rows / ROWS).

var<workgroup> partial: array<vec4<f32>, LANES * ROWS>; // [ROWS, LANES]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let rows = row_count();
    let width4 = params.width4;
    let first = group.y * ROWS;
    let column = group.x * 4u * width4;
    var sums: array<vec4<f32>, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        sums[r] = vec4<f32>();
    }
    for (var k = lane; k < width4; k += LANES) {
        let w0 = weight4(column + k);
        let w1 = weight4(column + width4 + k);
        let w2 = weight4(column + 2u * width4 + k);
        let w3 = weight4(column + 3u * width4 + k);
        for (var r = 0u; r < ROWS; r++) {
            // A tile that hangs over the last row computes that row again and does not store it.
            let x = input[min(first + r, rows - 1u) * width4 + k];
            sums[r] += vec4<f32>(dot(w0, x), dot(w1, x), dot(w2, x), dot(w3, x));
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        partial[r * LANES + lane] = sums[r];
    }
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            for (var r = 0u; r < ROWS; r++) {
                partial[r * LANES + lane] += partial[r * LANES + lane + half];
            }
        }
        workgroupBarrier();
    }
    if (lane < ROWS && first + lane < rows) {
        store(first + lane, group.x, partial[lane * LANES]);
    }
}
