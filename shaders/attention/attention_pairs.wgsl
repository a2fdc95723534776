// Keys or values as the software attention reads them: two quads of a head at a time, each by itself.

@group(0) @binding(2) var<storage, read> cached: array<Kv>; // [blocks, BLOCK, kv_heads, stride / 4]

struct Pair {
    a: vec4<f32>,
    b: vec4<f32>,
}

// Where the quads of a pair lie in a head; past the head's end, its last quad.
struct Own {
    a: u32,
    b: u32,
}

fn own_of(pair: u32) -> Own {
    let last = params.stride4 - 1u;
    return Own(min(2u * pair, last), min(2u * pair + 1u, last));
}

fn pair_at(head: u32, own: Own) -> Pair {
    return Pair(from_kv(cached[head + own.a]), from_kv(cached[head + own.b]));
}
