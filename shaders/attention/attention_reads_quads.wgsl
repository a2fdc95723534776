// Keys or values as the software attention reads them: four quads of a head at a time, each by itself.

@group(0) @binding(2) var<storage, read> cached: array<Kv>; // as kv_by_head.wgsl says

// Where four quads lie in a head; past the head's end, its last quad.
fn own_of(four: u32) -> vec4<u32> {
    return min(vec4<u32>(4u * four) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.stride4 - 1u));
}

fn four_at(head: u32, own: vec4<u32>) -> Four {
    return Four(
        from_kv(cached[head + own.x]),
        from_kv(cached[head + own.y]),
        from_kv(cached[head + own.z]),
        from_kv(cached[head + own.w]),
    );
}
