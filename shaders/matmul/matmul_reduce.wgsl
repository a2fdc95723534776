// Matmul for GPUs. Workgroup: ROWS rows by 4 columns; its lanes share the width, 16 bytes of weights at a time, and
// add up at the end (matmul_reduce_*.wgsl). A rows_*.wgsl says which rows a tile has. Grid: (columns / 4, rows / ROWS).

const QUADS: u32 = 8u / CHUNKS; // of elements in 16 bytes

fn matmul(id: vec3<u32>, lane: u32) {
    let rows = end_row(id.y);
    let width4 = params.width4;
    let first = first_row(id.y);
    if (ROUTED && first >= rows) {
        return;
    }
    let column = tiles_before(id.y) * 32u + id.x * 4u;
    var sums: array<vec4<f32>, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        sums[r] = vec4<f32>();
    }
    for (var k = lane; k < params.groups * CHUNKS; k += LANES) {
        let group = k / CHUNKS;
        for (var q = 0u; q < QUADS; q++) {
            let quad = k % CHUNKS * QUADS + q;
            let w0 = weight4(column, group, quad);
            let w1 = weight4(column + 1u, group, quad);
            let w2 = weight4(column + 2u, group, quad);
            let w3 = weight4(column + 3u, group, quad);
            // Beyond the width weights are zero: any element of the row will do.
            let at = min(group * 8u + quad, width4 - 1u);
            for (var r = 0u; r < ROWS; r++) {
                // A tile that hangs over the last row computes that row again and does not store it.
                let x = input[input_row(id.y, min(first + r, rows - 1u)) * width4 + at];
                sums[r] += vec4<f32>(dot(w0, x), dot(w1, x), dot(w2, x), dot(w3, x));
            }
        }
    }
    reduce(lane, &sums);
    if (lane < ROWS && first + lane < rows) {
        store(output_row(id.y, first + lane), id.x, reduced(lane));
    }
}
