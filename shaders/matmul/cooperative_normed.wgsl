// The norm of a row as a factor of its input in matmul_cooperative.wgsl: whoever wrote the input multiplied it by the norm's weights, and
// left the squares of what it was before (store_stream.wgsl). The factor comes before the input is narrowed to f16, which has no room for
// the rows of every stream as they are. The width alone says in which order squares are added up.

@group(0) @binding(10) var<storage, read> squares: array<vec4<f32>>; // [rows, width / 16, rounded up], each of four elements

const STRANDS: u32 = 32u; // of a row, each summed by itself
const AT_ONCE: u32 = 16u; // rows that are

var<workgroup> factors: array<f32, ROWS>;

// Through `sums`, [STRANDS, AT_ONCE, and one so that strands begin in other banks].
fn prepare_norms(first: u32, rows: u32, lane: u32) {
    let quads = (params.width4 + 3u) / 4u;
    for (var strip = 0u; strip < ROWS; strip += AT_ONCE) {
        workgroupBarrier();
        for (var i = lane; i < AT_ONCE * STRANDS; i += LANES) {
            let row = i / STRANDS;
            var sum = vec4<f32>();
            if (first + strip + row < rows) {
                let start = (first + strip + row) * quads;
                // Four are on their way at once.
                for (var k = i % STRANDS; k < quads; k += 4u * STRANDS) {
                    let s_0 = squares[start + k];
                    let s_1 = squares[start + min(k + STRANDS, quads - 1u)];
                    let s_2 = squares[start + min(k + 2u * STRANDS, quads - 1u)];
                    let s_3 = squares[start + min(k + 3u * STRANDS, quads - 1u)];
                    sum += s_0;
                    sum += select(vec4<f32>(), s_1, k + STRANDS < quads);
                    sum += select(vec4<f32>(), s_2, k + 2u * STRANDS < quads);
                    sum += select(vec4<f32>(), s_3, k + 3u * STRANDS < quads);
                }
            }
            sums[i % STRANDS * (AT_ONCE + 1u) + row] = sum;
        }
        workgroupBarrier();
        if (lane < AT_ONCE) {
            var all = vec4<f32>();
            for (var s = 0u; s < STRANDS; s++) {
                all += sums[s * (AT_ONCE + 1u) + lane];
            }
            let total = (all.x + all.y) + (all.z + all.w);
            factors[strip + lane] = inverseSqrt(total / params.norm_width + params.norm_epsilon);
        }
    }
    workgroupBarrier();
}

fn scaled(x: vec4<f32>, row: u32) -> vec4<f32> {
    return x * factors[row];
}
