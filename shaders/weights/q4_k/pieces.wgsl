// What a lane of matmul_cooperative.wgsl reads at once: half a group of a column, stored as GGUF's q4_K, kinds apart.

struct Piece {
    words: vec2<u32>,
    pair: u32,  // (s, m), a byte each
    block: u32, // (d, dmin), f16 each
}

struct Octet {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn load_piece(column: u32, group: u32, half: u32) -> Piece {
    let at = scale_at(column, group);
    let chunk = values[chunk_at(column, group, 0u)];
    return Piece(
        select(chunk.xy, chunk.zw, half == 1u),
        scales[at / 2u] >> (at % 2u * 16u),
        supers[super_at(column, group)],
    );
}

// Four q get there as the lowest bits of 2^23, without a conversion, of which GPUs make a quarter of what they add.
fn from_bits(word: u32) -> vec4<f32> {
    let bits = (vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
    return bitcast<vec4<f32>>(bits | vec4<u32>(0x4b000000u)) - vec4<f32>(8388608.0);
}

// Eight elements, as weights: the first or the second.
fn octet_of(piece: ptr<function, Piece>, octet: u32) -> Octet {
    let word = select((*piece).words.x, (*piece).words.y, octet == 1u);
    let pair = (*piece).pair;
    let factors = unpack2x16float((*piece).block) * vec2<f32>(vec2<u32>(pair, pair >> 8u) & vec2<u32>(255u));
    let least = vec4<f32>(-factors.y);
    return Octet(
        fma(vec4<f32>(factors.x), from_bits(word), least),
        fma(vec4<f32>(factors.x), from_bits(word >> 16u), least),
    );
}
