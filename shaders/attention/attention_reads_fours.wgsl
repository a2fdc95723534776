// Keys or values in f16 or int8 as the software attention reads them where heads are fours of quads: four with one read, since a read
// costs these adapters as much as two thirds of one of twice the width.

@group(0) @binding(2) var<storage, read> cached: array<Held>; // as kv_by_head.wgsl says

// Where four quads lie in a head; past the head's end, its last four.
fn own_of(four: u32) -> u32 {
    return min(four, width_of_head() - 1u);
}

fn four_at(head: u32, own: u32) -> Four {
    return four_of(cached[head + own]);
}
