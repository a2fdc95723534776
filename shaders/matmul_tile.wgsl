// Matmul for GPUs and many rows. Workgroup: 32 rows by 32 columns, 8 x 8 lanes of 4 x 4 sums; 16 elements of the width at a
// time go through workgroup memory. Grid: (columns / 32, rows / 32).

const SIDE: u32 = 32u;  // rows and columns of a tile
const DEPTH4: u32 = 4u; // elements of the width at a time, / 4

var<workgroup> input_tile: array<vec4<f32>, SIDE * DEPTH4>;  // [DEPTH4, SIDE rows]
var<workgroup> weight_tile: array<vec4<f32>, SIDE * DEPTH4>; // [DEPTH4, SIDE columns]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let rows = row_count();
    let columns = params.columns4 * 4u;
    let width4 = params.width4;
    let first_row = group.y * SIDE;
    let first_column = group.x * SIDE;
    // Rows of a lane are 8 apart, so that neighbouring lanes read neighbouring elements; its columns are neighbours, as
    // `store` takes four of them.
    let lane_row = lane / 8u;
    let lane_column = lane % 8u;
    var sums: array<vec4<f32>, 4>;
    for (var r = 0u; r < 4u; r++) {
        sums[r] = vec4<f32>();
    }
    for (var start = 0u; start < width4; start += DEPTH4) {
        for (var i = lane; i < SIDE * DEPTH4; i += 64u) {
            let side = i / DEPTH4;
            let depth = i % DEPTH4;
            var x = vec4<f32>();
            var w = vec4<f32>();
            if (start + depth < width4) {
                x = input[min(first_row + side, rows - 1u) * width4 + start + depth];
                w = weight4(min(first_column + side, columns - 1u) * width4 + start + depth);
            }
            input_tile[depth * SIDE + side] = x;
            weight_tile[depth * SIDE + side] = w;
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
    let column4 = group.x * (SIDE / 4u) + lane_column;
    for (var r = 0u; r < 4u; r++) {
        let row = first_row + lane_row + r * 8u;
        if (row < rows && column4 < params.columns4) {
            store(row, column4, sums[r]);
        }
    }
}
