// The norm of a row as a factor of its sums in matmul_columns.wgsl: whoever wrote the input multiplied it by the norm's weights, and
// left the squares of what it was before (store_stream.wgsl). A factor has the same bits in every tile: the width alone says in which
// order squares are added up.

@group(0) @binding(10) var<storage, read> squares: array<vec4<f32>>; // [rows, width / 16, rounded up], each of four elements

const STRANDS: u32 = 64u; // of a row, each summed by itself

fn four(squares: vec4<f32>) -> f32 {
    return (squares.x + squares.y) + (squares.z + squares.w);
}

// Eighths of the squares of each row of the tile, to `partial`, which is free by now.
fn prepare_norms(first: u32, rows: u32, lane: u32) {
    let quads = (params.width4 + 3u) / 4u;
    for (var i = lane; i < ROWS * STRANDS; i += LANES) {
        let start = min(first + i / STRANDS, rows - 1u) * quads;
        var sum = 0.0;
        // Four are on their way at once.
        for (var k = i % STRANDS; k < quads; k += 4u * STRANDS) {
            let k_1 = k + STRANDS;
            let k_2 = k + 2u * STRANDS;
            let k_3 = k + 3u * STRANDS;
            let s_0 = squares[start + k];
            let s_1 = squares[start + min(k_1, quads - 1u)];
            let s_2 = squares[start + min(k_2, quads - 1u)];
            let s_3 = squares[start + min(k_3, quads - 1u)];
            sum += four(s_0);
            sum += select(0.0, four(s_1), k_1 < quads);
            sum += select(0.0, four(s_2), k_2 < quads);
            sum += select(0.0, four(s_3), k_3 < quads);
        }
        partial[i].x = sum;
    }
    workgroupBarrier();
    if (lane < ROWS * 8u) {
        var eighth = 0.0;
        for (var s = 0u; s < STRANDS / 8u; s++) {
            eighth += partial[lane * 8u + s].x;
        }
        partial[lane * 8u].x = eighth;
    }
    workgroupBarrier();
}

fn scaled(sums: vec4<f32>, row: u32) -> vec4<f32> {
    var total = 0.0;
    for (var e = 0u; e < 8u; e++) {
        total += partial[(row * 8u + e) * 8u].x;
    }
    return sums * inverseSqrt(total / params.norm_width + params.norm_epsilon);
}
