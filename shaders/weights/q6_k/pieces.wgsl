// What a lane of matmul_cooperative.wgsl reads at once: half a group of a column, stored as GGUF's q6_K, kinds apart.

struct Piece {
    words: vec2<u32>, // the low four bits of q
    upper: u32,       // its upper two
    factor: i32,      // i8, for the half
    block: u32,       // d, f16
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
        high[high_at(column, group)][half],
        bitcast<i32>(scales[at / 2u] << (24u - at % 2u * 16u - half * 8u)) >> 24u,
        supers[super_at(column, group)],
    );
}

// Four q, less 32: they get there as the lowest bits of 2^23, without a conversion, of which GPUs make a quarter of what they add.
fn from_bits(low: u32, upper: u32) -> vec4<f32> {
    let q = ((vec4<u32>(low) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u))
        | (((vec4<u32>(upper) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u)) << vec4<u32>(4u));
    return bitcast<vec4<f32>>(q | vec4<u32>(0x4b000000u)) - vec4<f32>(8388640.0);
}

// Eight elements, as weights: the first or the second.
fn octet_of(piece: ptr<function, Piece>, octet: u32) -> Octet {
    let word = select((*piece).words.x, (*piece).words.y, octet == 1u);
    let upper = (*piece).upper >> (octet * 16u);
    let factor = unpack2x16float((*piece).block).x * f32((*piece).factor);
    return Octet(factor * from_bits(word, upper), factor * from_bits(word >> 16u, upper >> 8u));
}
