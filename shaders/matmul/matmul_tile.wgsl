// Matmul for GPUs and many rows. Workgroup: 32 rows by 32 columns, 8 x 8 lanes of 4 x 4 sums; 16 elements of the width at a
// time go through workgroup memory. Grid: (columns / 32, rows / 32).

const SIDE: u32 = 32u;  // rows and columns of a tile
const DEPTH4: u32 = 4u; // elements of the width at a time, / 4

var<workgroup> input_tile: array<vec4<f32>, SIDE * DEPTH4>;  // [DEPTH4, SIDE rows]
var<workgroup> weight_tile: array<vec4<f32>, SIDE * DEPTH4>; // [DEPTH4, SIDE columns]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let rows = row_count();
    let width4 = params.width4;
    let first_row = id.y * SIDE;
    let first_column = id.x * SIDE;
    // Rows of a lane are 8 apart, so that neighbouring lanes read neighbouring elements; its columns are neighbours, as
    // `store` takes four of them.
    let lane_row = lane / 8u;
    let lane_column = lane % 8u;
    var sums: array<vec4<f32>, 4>;
    for (var r = 0u; r < 4u; r++) {
        sums[r] = vec4<f32>();
    }
    for (var start = 0u; start < params.groups * 8u; start += DEPTH4) {
        for (var i = lane; i < SIDE * DEPTH4; i += 64u) {
            let side = i / DEPTH4;
            let quad = start + i % DEPTH4;
            // Beyond the width weights are zero: any element of the row will do. There are always 32 stored columns.
            let row = min(first_row + side, rows - 1u);
            input_tile[i % DEPTH4 * SIDE + side] = input[row * width4 + min(quad, width4 - 1u)];
            weight_tile[i % DEPTH4 * SIDE + side] = weight4(first_column + side, quad / 8u, quad % 8u);
        }
        workgroupBarrier();
        for (var depth = 0u; depth < DEPTH4; depth++) {
            let at = depth * SIDE + lane_column * 4u;
            let w0 = weight_tile[at];
            let w1 = weight_tile[at + 1u];
            let w2 = weight_tile[at + 2u];
            let w3 = weight_tile[at + 3u];
            for (var r = 0u; r < 4u; r++) {
                let x = input_tile[depth * SIDE + lane_row + r * 8u];
                sums[r] += vec4<f32>(dot(w0, x), dot(w1, x), dot(w2, x), dot(w3, x));
            }
        }
        workgroupBarrier();
    }
    let column4 = id.x * (SIDE / 4u) + lane_column;
    for (var r = 0u; r < 4u; r++) {
        let row = first_row + lane_row + r * 8u;
        if (row < rows && column4 < params.columns4) {
            store(row, column4, sums[r]);
        }
    }
}
