// The input is before its norm (columns_normed.wgsl), which is a factor of the sums of a row.

@group(0) @binding(10) var<storage, read> squares: array<vec4<f32>>; // [rows, width / 16, rounded up], each of four elements

// Those of a row from one quad on, in steps.
fn squares_of(row: u32, first: u32, by: u32) -> f32 {
    let quads = (params.width4 + 3u) / 4u;
    var sum = 0.0;
    for (var k = first; k < quads; k += by) {
        let four = squares[row * quads + k];
        sum += (four.x + four.y) + (four.z + four.w);
    }
    return sum;
}

fn factor(squares: f32) -> f32 {
    return inverseSqrt(squares / params.norm_width + params.norm_epsilon);
}
