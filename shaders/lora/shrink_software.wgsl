// A x for software adapters. Invocation: a number of a row. Grid: (most ranks / LANES, rows that have an adapter).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = adapted[group.y].y;
    let slot = slots[adapted[row].x - 1u];
    let place = group.x * LANES + lane;
    if (place >= slot.rank) {
        return;
    }
    var sum = 0.0;
    for (var k = 0u; k < params.width4; k++) {
        sum += dot(a[slot.a + k * slot.rank + place], input[row * params.width4 + k]);
    }
    low[row * params.stride + place] = sum * factor(squares_of(row, 0u, 1u));
}
