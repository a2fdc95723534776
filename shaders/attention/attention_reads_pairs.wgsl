// Keys or values in f16 as the software attention reads them where heads are pairs of quads: two with one read, since a read costs these
// adapters as much as two thirds of one of twice the width.

@group(0) @binding(2) var<storage, read> cached: array<Words4>; // as kv_by_head.wgsl says

// Where two pairs lie in a head; past the head's end, its last pair.
fn own_of(four: u32) -> vec2<u32> {
    return min(vec2<u32>(2u * four, 2u * four + 1u), vec2<u32>(width_of_head() - 1u));
}

fn four_at(head: u32, own: vec2<u32>) -> Four {
    let low = words4(cached[head + own.x]);
    let high = words4(cached[head + own.y]);
    return Four(from_kv(low.xy), from_kv(low.zw), from_kv(high.xy), from_kv(high.zw));
}
