// Matmul of integers for GPUs. Workgroup: ROWS rows by ACROSS * 4 columns. The groups of the width are dealt out to params.parts
// parts in turn. A lane has four columns that lie together, and sums a part by itself; then the parts of each sum are added up in
// order. So the order of a sum depends on the width alone, and no subgroup has a part in it. Where there are more parts than PARTS,
// they are summed in several rounds. Weights lie in tiles of 32 columns (layout_tiles.wgsl).
// Grid: (rows / ROWS, columns / (ACROSS * 4)): those that read the same weights run side by side.
//
// The host writes this out (kernels/columns.rs): a line once for each row where it has the row's number, and what a lane does with
// a group of 32 elements of each format. So no driver has to unroll loops over arrays.

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;

var<workgroup> partial: array<vec4<f32>, PARTS * ROWS * ACROSS>; // [PARTS, ROWS, ACROSS]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let rows = row_count();
    let first = id.x * ROWS;
    let across = lane % ACROSS;
    // A workgroup that hangs over the last tile reads that again and does not store it.
    let place = min(id.y * ACROSS + across, (params.columns4 + 7u) / 8u * 8u - 1u);
    let tile = place / 8u;
    let tile_lane = place % 8u;
    // One that hangs over the last row computes that row again and does not store it.
    let start_$R = min(first + $Ru, rows - 1u) * params.width4;
    var whole = vec4<f32>();
    for (var round = 0u; round < params.parts; round += PARTS) {
        // A lane beyond the last part has no groups.
        let slot = round + lane / ACROSS;
        let part = select(params.groups, slot, slot < params.parts);
        var sums_$R = vec4<f32>();
        for (var g = part; g < params.groups; g += params.parts) {
            let at = tile * params.groups + g;
            $GROUP
        }
        partial[(lane / ACROSS * ROWS + $Ru) * ACROSS + across] = sums_$R;
        workgroupBarrier();
        // With several rounds there are lanes for all sums, so that each goes on with its own.
        for (var i = lane; i < ROWS * ACROSS; i += LANES) {
            whole = select(whole, vec4<f32>(), round == 0u);
            for (var p = 0u; p < min(params.parts - round, PARTS); p++) {
                whole += partial[p * ROWS * ACROSS + i];
            }
            let row = first + i / ACROSS;
            let column4 = id.y * ACROSS + i % ACROSS;
            if (round + PARTS >= params.parts && row < rows && column4 < params.columns4) {
                store(row, column4, whole);
            }
        }
        workgroupBarrier();
    }
}
