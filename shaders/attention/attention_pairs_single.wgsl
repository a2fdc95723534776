// Values as the software attention reads them where a head has no more quads than a workgroup has lanes: one, and nothing beside it.

const QUADS: u32 = 1u;

@group(0) @binding(2) var<storage, read> cached: array<Kv>; // [blocks, BLOCK, kv_heads, stride / 4], and scales

struct Pair {
    a: vec4<f32>,
    b: vec4<f32>,
}

// Where the quad lies in a head; past the head's end, its last quad.
struct Own {
    at: u32,
}

fn own_of(pair: u32) -> Own {
    return Own(min(pair, params.stride4 - 1u));
}

fn pair_at(head: u32, own: Own) -> Pair {
    return Pair(from_kv(cached[head + own.at]), vec4<f32>());
}

// Something of each line of a cache that holds eight quads of a head from `pair` on.
fn touch(head: u32, pair: u32) -> u32 {
    let word = word_of(cached[head + own_of(pair).at]);
    if (TWO_LINES) {
        return word | word_of(cached[head + own_of(pair + 4u).at]);
    }
    return word;
}
