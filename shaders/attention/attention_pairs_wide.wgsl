// Keys or values in f16 or int8 as the software attention reads them where heads are pairs of quads: both quads with one read, since
// a read costs these adapters as much as two thirds of one of twice the width.

@group(0) @binding(2) var<storage, read> cached: array<HeldPair>; // [blocks, BLOCK, kv_heads, stride / 8], and scales

struct Pair {
    a: vec4<f32>,
    b: vec4<f32>,
}

// Where a pair lies in a head; past the head's end, its last pair.
struct Own {
    at: u32,
}

fn own_of(pair: u32) -> Own {
    return Own(min(pair, width_of_head() - 1u));
}

fn pair_at(head: u32, own: Own) -> Pair {
    let x = pair_of(cached[head + own.at]);
    return Pair(from_kv(first_of(x)), from_kv(second_of(x)));
}
