// Matmul for GPUs with cooperative matrices and many rows. Workgroup: 64 rows by 64 columns, in quadrants of 32 by 32, one for each of
// four subgroups of LANES / 4 lanes. A group of 32 elements of the width at a time goes through workgroup memory in f16; matrices of
// 16 by 16 are multiplied, and summed in f32. Grid: (columns / 64, rows / 64).

const SIDE: u32 = 64u;

alias Input = coop_mat16x16<f16, A>;
alias Weight = coop_mat16x16<f16, B>;
alias Sum = coop_mat16x16<f32, C>;

var<workgroup> input_tile: array<f16, SIDE * 32u>;  // [SIDE rows, 32 elements]
var<workgroup> weight_tile: array<f16, SIDE * 32u>; // [SIDE columns, 32 elements]
var<workgroup> sums: array<f32, 32u * SIDE>;        // [half of the rows, SIDE columns]

// What is beyond f16 becomes its largest number, not infinity.
fn narrow(x: vec4<f32>) -> vec4<f16> {
    return vec4<f16>(clamp(x, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    let rows = row_count();
    let width4 = params.width4;
    let first_row = id.y * SIDE;
    let first_column = id.x * SIDE;
    // Subgroups smaller than was told compute a quadrant twice, and the same numbers.
    let half_row = subgroup % 4u / 2u;
    let half_column = subgroup % 2u;
    var sum_00 = Sum();
    var sum_01 = Sum();
    var sum_10 = Sum();
    var sum_11 = Sum();
    for (var group = 0u; group < params.groups; group++) {
        for (var i = lane; i < SIDE * 8u; i += LANES) {
            let side = i / 8u;
            let quad = i % 8u;
            // A tile that hangs over the last row or column reads that one again and does not store it. Beyond the width
            // weights are zero: any element of the row will do.
            let row = min(first_row + side, rows - 1u);
            let column = min(first_column + side, params.columns4 * 4u - 1u);
            let x = narrow(input[row * width4 + min(group * 8u + quad, width4 - 1u)]);
            let w = narrow(weight4(column, group, quad));
            for (var e = 0u; e < 4u; e++) {
                input_tile[i * 4u + e] = x[e];
                weight_tile[i * 4u + e] = w[e];
            }
        }
        workgroupBarrier();
        for (var k = 0u; k < 32u; k += 16u) {
            // Rows of the input follow each other, and so do columns of the weights.
            let x_0 = coopLoadT<Input>(&input_tile[half_row * 1024u + k], 32u);
            let x_1 = coopLoadT<Input>(&input_tile[half_row * 1024u + 512u + k], 32u);
            let w_0 = coopLoad<Weight>(&weight_tile[half_column * 1024u + k], 32u);
            let w_1 = coopLoad<Weight>(&weight_tile[half_column * 1024u + 512u + k], 32u);
            sum_00 = coopMultiplyAdd(x_0, w_0, sum_00);
            sum_01 = coopMultiplyAdd(x_0, w_1, sum_01);
            sum_10 = coopMultiplyAdd(x_1, w_0, sum_10);
            sum_11 = coopMultiplyAdd(x_1, w_1, sum_11);
        }
        workgroupBarrier();
    }
    for (var half = 0u; half < 2u; half++) {
        if (half_row == half) {
            let at = half_column * 32u;
            coopStoreT(sum_00, &sums[at], SIDE);
            coopStoreT(sum_01, &sums[at + 16u], SIDE);
            coopStoreT(sum_10, &sums[16u * SIDE + at], SIDE);
            coopStoreT(sum_11, &sums[16u * SIDE + at + 16u], SIDE);
        }
        workgroupBarrier();
        for (var i = lane; i < 32u * SIDE / 4u; i += LANES) {
            let row = first_row + half * 32u + i / (SIDE / 4u);
            let column4 = id.x * (SIDE / 4u) + i % (SIDE / 4u);
            if (row < rows && column4 < params.columns4) {
                store(row, column4, vec4<f32>(sums[i * 4u], sums[i * 4u + 1u], sums[i * 4u + 2u], sums[i * 4u + 3u]));
            }
        }
        workgroupBarrier();
    }
}
