// Parts that whoever is the last of a row and unit to write one merges, so that no dispatch has to wait for all of them. They are seen
// in all of the device before their writer counts itself.

// [rows, heads, parts_of_head(), stride / 4 + 1]: sums of a part, then its highest score and the sum of its weights.
@group(0) @binding(6) @coherent var<storage, read_write> parts: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> written: array<atomic<u32>>; // [rows, units]: parts; 0 between dispatches

var<workgroup> written_before: u32;

// `count` is how many positions the row sees.
fn merge_last(place: Place, count: u32) {
    let all = parts_of_row(count);
    let row = place.group.z;
    let unit = place.group.y;
    let own = row * (params.heads / HEADS) + unit;
    storageBarrier();
    if (place.lane == 0u) {
        written_before = atomicAdd(&written[own], 1u);
    }
    if (workgroupUniformLoad(&written_before) + 1u < all) {
        return;
    }
    storageBarrier();
    for (var i = place.lane; i < HEADS * params.stride4; i += LANES) {
        let head = row * params.heads + unit * HEADS + i / params.stride4;
        output[head * params.stride4 + i % params.stride4] = merged(head, all, i % params.stride4);
    }
    if (place.lane == 0u) {
        atomicStore(&written[own], 0u);
    }
}
