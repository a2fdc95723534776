// Matmul for GPUs with cooperative matrices. Workgroup: ROWS rows by COLUMNS columns. A step is a group of 32 elements of the width in
// f16, which goes through workgroup memory, for each of SLICES slices of the width; subgroups share the slices, or, where there is but
// one, the tile in quadrants. What is read for a step is on its way while DEPTH steps before it are multiplied.
//
// The order of a sum is a matter of the width alone. The width is cut into SEGMENTS segments of as many groups each, of which the last
// may have fewer or none. A segment is summed from zero, 16 elements at a time, in the order in which they follow each other, and
// segments are added up in order. The tiles that rows and columns are padded to, and who sums which segment, are no part of it.
//
// Grid: (rows / ROWS, columns / COLUMNS): those that read the same weights run side by side.
//
// The host writes this out (kernels/cooperative.rs): a line once for each number of what it has a letter of, $R (rows of matrices of a
// subgroup), $C (columns of them), $Q (quads of sums of a lane), $X (quads of the input of a lane) or $W (pieces of weights of a lane).
// matmul_cooperative_step.wgsl comes once for each step that is on its way.

const SEGMENTS: u32 = 8u;
const EVEN: u32 = 4u;     // groups of a segment are a multiple of it, and so are the steps of any number of slices
const STRIDE: u32 = 10u;  // quads from one row of a staged tile to the next: its eight, and two so that rows begin in other banks
const INPUTS: u32 = SLICES * ROWS * 8u;     // quads of the input of a step
const PIECES: u32 = SLICES * COLUMNS * 2u;  // pieces of weights of a step: half a group of a column each

var<workgroup> input_tile: array<Quad, BUFFERS * SLICES * ROWS * STRIDE>;
var<workgroup> weight_tile: array<Quad, BUFFERS * SLICES * COLUMNS * STRIDE>;
var<workgroup> sums: array<vec4<f32>, SHARED>; // [SLICES, HELD, COLUMNS / 4], and more where norms need it

// What is beyond f16 becomes its largest number, not infinity; what is no number stays none.
fn within(x: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
    return select(clamp(x, vec4<f32>(-65504.0), vec4<f32>(65504.0)), x, bits > vec4<u32>(0x7f800000u));
}

// The row of all slices' that quad i of the input is of: of sixteen lanes that write at once, eight have a row, and eight the fourth
// after it, which begins in the other half of the banks.
fn staged_row(i: u32) -> u32 {
    let row = i / 8u;
    return row / 8u * 8u + row % 2u * 4u + row / 2u % 4u;
}

// The group of a slice at a step. Slices take segments in turn.
fn group_of(slice: u32, step: u32, each: u32) -> u32 {
    return (step / each * SLICES + slice) * each + step % each;
}

// Four elements of the input. Rows beyond the last are zero, and so is what is beyond the width.
fn input_at(i: u32, step: u32, each: u32, first_row: u32, rows: u32) -> vec4<f32> {
    let staged = staged_row(i);
    let row = first_row + staged % ROWS;
    let quad = group_of(staged / ROWS, step, each) * 8u + i % 8u;
    if (row < rows && quad < params.width4) {
        return input[row * params.width4 + quad];
    }
    return vec4<f32>();
}

// Half a group of a column. Beyond the last column or group it is another one's, which is not stored or meets an input of zero.
fn piece_at(i: u32, step: u32, each: u32, first_column: u32) -> Piece {
    let column = min(first_column + i % COLUMNS, params.columns4 * 4u - 1u);
    let group = group_of(i / (COLUMNS * 2u), step, each);
    return load_piece(column, min(group, params.groups - 1u), i / COLUMNS % 2u);
}

fn stage_input(i: u32, buffer: u32, x: vec4<f32>) {
    let staged = staged_row(i);
    input_tile[(buffer * SLICES * ROWS + staged) * STRIDE + i % 8u] = narrow(within(scaled(x, staged % ROWS)));
}

// Eight elements. Of sixteen lanes that write at once eight begin with the second four, so that they write to other banks.
fn stage_octet(i: u32, buffer: u32, octet: u32, eight: Octet) {
    let slice = i / (COLUMNS * 2u);
    let column = i % COLUMNS;
    let at = ((buffer * SLICES + slice) * COLUMNS + column) * STRIDE + i / COLUMNS % 2u * 4u + octet * 2u;
    let low = narrow(within(eight.low));
    let high = narrow(within(eight.high));
    let turned = column / 8u % 2u;
    weight_tile[at + turned] = select(low, high, turned == 1u);
    weight_tile[at + 1u - turned] = select(high, low, turned == 1u);
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    let rows = row_count();
    let first_row = id.x * ROWS;
    let first_column = id.y * COLUMNS;
    let each = (params.groups + SEGMENTS * EVEN - 1u) / (SEGMENTS * EVEN) * EVEN;
    let steps = (SEGMENTS / SLICES) * each;
    // Subgroups smaller than was told compute the same twice.
    let place = subgroup % SUBGROUPS;
    let slice = place % SLICES;
    let block_row = place / SLICES / ACROSS * (BLOCK_ROWS * 16u);
    let block_column = place / SLICES % ACROSS * (BLOCK_COLUMNS * 16u);
    // Rows beyond the last stay zero in every buffer.
    for (var i = lane; i < BUFFERS * SLICES * ROWS * STRIDE; i += LANES) {
        input_tile[i] = Quad();
    }
    let in_row_$X = lane + $Xu * LANES < INPUTS && first_row + staged_row(lane + $Xu * LANES) % ROWS < rows;
$PREFETCH
    prepare_norms(first_row, rows, lane);
    var sum_$R_$C = Sum();
    var total_$R_$C = Sum();
    var whole_$R_$Q = vec4<f32>();
    workgroupBarrier();
    for (var step = 0u; step < steps; step += DEPTH) {
$STEPS
    }
    let columns4 = COLUMNS / 4u;
    if (SLICES > 1u) {
        // Each lane has the sums that it added up.
        let row_$R_$Q = $Ru * 16u + (lane + $Qu * LANES) / columns4;
        let column4_$Q = id.y * columns4 + (lane + $Qu * LANES) % columns4;
        if (lane + $Qu * LANES < HELD * columns4 && first_row + row_$R_$Q < rows && column4_$Q < params.columns4) { store(first_row + row_$R_$Q, column4_$Q, whole_$R_$Q); }
    } else {
        for (var strip = 0u; strip < ROWS; strip += HELD) {
            workgroupBarrier();
            if (block_row / HELD * HELD == strip) {
                let at_$R_$C = (block_row - strip + $Ru * 16u) * columns4 + block_column / 4u + $Cu * 4u;
                coopStoreT(total_$R_$C, &sums[at_$R_$C], COLUMNS / 4u);
            }
            workgroupBarrier();
            for (var i = lane; i < HELD * columns4; i += LANES) {
                let row = strip + i / columns4;
                let column4 = id.y * columns4 + i % columns4;
                if (first_row + row < rows && column4 < params.columns4) {
                    store(first_row + row, column4, sums[i]);
                }
            }
        }
    }
}
