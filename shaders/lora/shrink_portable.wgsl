// A x for GPUs. Workgroup: RANKS numbers of a row, each summed by LANES / RANKS lanes in turn along the width.
// Grid: (most ranks / RANKS, rows that have an adapter).

const PARTS: u32 = LANES / RANKS;

var<workgroup> partial: array<f32, LANES>;
var<workgroup> partial_squares: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = adapted[group.y].y;
    let slot = slots[adapted[row].x - 1u];
    let place = group.x * RANKS + lane % RANKS;
    let part = lane / RANKS;
    var sum = 0.0;
    if (place < slot.rank) {
        for (var k = part; k < params.width4; k += PARTS) {
            sum += dot(a[slot.a + k * slot.rank + place], input[row * params.width4 + k]);
        }
    }
    partial[lane] = sum;
    partial_squares[lane] = squares_of(row, lane, LANES);
    workgroupBarrier();
    if (part == 0u && place < slot.rank) {
        var total = 0.0;
        for (var p = 0u; p < PARTS; p++) {
            total += partial[p * RANKS + lane];
        }
        var squares = 0.0;
        for (var i = 0u; i < LANES; i++) {
            squares += partial_squares[i];
        }
        low[row * params.stride + place] = total * factor(squares);
    }
}
