// B (A x) of rows that have an adapter, which a store_*.wgsl puts where the product's sums went. Where it needs all of a sum at once
// (RAW) the product's are read from `raw`, and rows without an adapter have theirs as they are.
// Invocation: 4 columns of a row. Grid: (columns / 4 / LANES, rows that have an adapter; where RAW all rows).

struct Params {
    columns4: u32,
    stride: u32,     // columns / 4 of a row of the output
    first: u32,      // 0
    low_stride: u32, // numbers of a row of `low`
    // Matrices that lie beside each other end at these columns / 4; rows of two may come in turn instead.
    end_0: u32,
    end_1: u32,
    end_2: u32,
    in_turn: u32,
}

@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>; // of each slot and each of its matrices [rank, columns / 4], scaled
@group(0) @binding(2) var<storage, read> low: array<f32>;     // [rows, low_stride]
@group(0) @binding(4) var<uniform> params: Params;

fn of_adapter(row: u32, column4: u32, slot: Slot) -> vec4<f32> {
    var start = 0u;
    var end = params.end_0;
    var rank = slot.ranks.x;
    var b_first = slot.b;
    var low_first = row * params.low_stride;
    if (column4 >= params.end_0) {
        b_first += slot.ranks.x * params.end_0;
        low_first += slot.ranks.x;
        start = params.end_0;
        end = params.end_1;
        rank = slot.ranks.y;
    }
    if (column4 >= params.end_1) {
        b_first += slot.ranks.y * (params.end_1 - params.end_0);
        low_first += slot.ranks.y;
        start = params.end_1;
        end = params.end_2;
        rank = slot.ranks.z;
    }
    let columns4 = end - start;
    let other = low_first + select(0u, rank, params.in_turn == 1u);
    var sum = vec4<f32>();
    for (var j = 0u; j < rank; j++) {
        let one = low[low_first + j];
        let two = low[other + j];
        sum += b[b_first + j * columns4 + column4 - start] * vec4<f32>(one, two, one, two);
    }
    return sum;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column4 = group.x * LANES + lane;
    if (column4 >= params.columns4) {
        return;
    }
    let row = row_of(group.y);
    let which = adapted[row].x;
    var sums = before(row, column4);
    if (which != 0u) {
        let slot = slots[which - 1u];
        if (slot.rank != 0u) {
            sums += of_adapter(row, column4, slot);
        } else if (!RAW) {
            return;
        }
    }
    store(row, column4, sums);
}
