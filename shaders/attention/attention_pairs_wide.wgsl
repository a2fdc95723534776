// Keys or values in f16 as the software attention reads them where heads are pairs of quads: both quads with one read, since a
// read costs these adapters as much as two thirds of one of twice the width.

const QUADS: u32 = 2u;

@group(0) @binding(2) var<storage, read> cached: array<vec4<u32>>; // [blocks, BLOCK, kv_heads, stride / 8]

struct Pair {
    a: vec4<f32>,
    b: vec4<f32>,
}

// Where a pair lies in a head; past the head's end, its last pair.
struct Own {
    at: u32,
}

// What a head has of `cached`.
fn cached_stride() -> u32 {
    return params.stride4 / 2u;
}

fn own_of(pair: u32) -> Own {
    return Own(min(pair, params.stride4 / 2u - 1u));
}

fn pair_at(head: u32, own: Own) -> Pair {
    let x = cached[head + own.at];
    return Pair(from_kv(x.xy), from_kv(x.zw));
}

// A word of each line of a cache that holds eight pairs of a head from `pair` on.
fn touch(head: u32, pair: u32) -> u32 {
    return cached[head + own_of(pair).at].x | cached[head + own_of(pair + 4u).at].x;
}
