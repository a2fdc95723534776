// Parts that whoever is the last of a row and unit to write one merges, so that no dispatch has to wait for all of them. They are seen
// in all of the device before their writer counts itself.

// [rows, heads, parts_of_head(), stride / 4 + 1]: sums of a part, then its highest score and the sum of its weights.
@group(0) @binding(6) @coherent var<storage, read_write> parts: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> written: array<atomic<u32>>; // [rows, units]: parts; 0 between dispatches

var<workgroup> is_last: array<u32, ROWS>; // of those who write parts of a row

// After part `number` of `rows` rows from `first` on has been written.
fn merge_last(lane: u32, unit: u32, number: u32, first: u32, rows: u32) {
    let units = params.heads / HEADS;
    storageBarrier();
    if (lane < rows) {
        let position = step.entries[first + lane].z;
        let all = parts_of_row(position);
        var before = 0u;
        if (all > 1u && number >= first_part(position)) {
            before = atomicAdd(&written[(first + lane) * units + unit], 1u) + 1u;
        }
        is_last[lane] = select(0u, 1u, all > 1u && before == all);
    }
    workgroupBarrier();
    storageBarrier();
    for (var r = 0u; r < rows; r++) {
        if (is_last[r] == 0u) {
            continue;
        }
        let row = first + r;
        let all = parts_of_row(step.entries[row].z);
        for (var i = lane; i < HEADS * params.stride4; i += LANES) {
            let head = row * params.heads + unit * HEADS + i / params.stride4;
            output[head * params.stride4 + i % params.stride4] = merged(head, all, i % params.stride4);
        }
        if (lane == 0u) {
            atomicStore(&written[row * units + unit], 0u);
        }
    }
}
