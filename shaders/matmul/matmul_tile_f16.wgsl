// Matmul for GPUs with f16 and many rows. Workgroup: 64 rows by 64 columns, 16 x 16 lanes of 4 x 4 sums; a group of 32 elements of the
// width at a time goes through workgroup memory in f16. Sums are f32. Grid: (columns / 64, rows / 64).

const SIDE: u32 = 64u;  // rows and columns of a tile
const LANES: u32 = 256u;

var<workgroup> input_tile: array<vec4<f16>, SIDE * 8u>;  // [8 quads, SIDE rows]
var<workgroup> weight_tile: array<vec4<f16>, SIDE * 8u>; // [8 quads, SIDE columns]

// What is beyond f16 becomes its largest number, not infinity.
fn narrow(x: vec4<f32>) -> vec4<f16> {
    return vec4<f16>(clamp(x, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let rows = row_count();
    let width4 = params.width4;
    let first_row = id.y * SIDE;
    let first_column = id.x * SIDE;
    let lane_row = lane / 16u;
    let lane_column = lane % 16u;
    var sums: array<vec4<f32>, 4>;
    for (var r = 0u; r < 4u; r++) {
        sums[r] = vec4<f32>();
    }
    for (var group = 0u; group < params.groups; group++) {
        for (var i = lane; i < SIDE * 8u; i += LANES) {
            let side = i / 8u;
            let quad = i % 8u;
            // A tile that hangs over the last row or column reads that one again and does not store it. Beyond the width
            // weights are zero: any element of the row will do.
            let row = min(first_row + side, rows - 1u);
            let column = min(first_column + side, params.columns4 * 4u - 1u);
            input_tile[quad * SIDE + side] = narrow(input[row * width4 + min(group * 8u + quad, width4 - 1u)]);
            weight_tile[quad * SIDE + side] = narrow(weight4(column, group, quad));
        }
        workgroupBarrier();
        for (var quad = 0u; quad < 8u; quad++) {
            let at = quad * SIDE + lane_column * 4u;
            let w0 = vec4<f32>(weight_tile[at]);
            let w1 = vec4<f32>(weight_tile[at + 1u]);
            let w2 = vec4<f32>(weight_tile[at + 2u]);
            let w3 = vec4<f32>(weight_tile[at + 3u]);
            for (var r = 0u; r < 4u; r++) {
                let x = vec4<f32>(input_tile[quad * SIDE + lane_row + r * 16u]);
                sums[r] += vec4<f32>(dot(w0, x), dot(w1, x), dot(w2, x), dot(w3, x));
            }
        }
        workgroupBarrier();
    }
    let column4 = id.x * (SIDE / 4u) + lane_column;
    for (var r = 0u; r < 4u; r++) {
        let row = first_row + lane_row + r * 16u;
        if (row < rows && column4 < params.columns4) {
            store(row, column4, sums[r]);
        }
    }
}
