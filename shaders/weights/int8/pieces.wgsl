// What a lane of matmul_cooperative.wgsl reads at once: half a group of a column, stored as i8, and the group's scale.

struct Piece {
    chunk: vec4<u32>,
    scale: u32, // f16
}

struct Octet {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn load_piece(column: u32, group: u32, half: u32) -> Piece {
    let at = scale_at(column, group);
    return Piece(values[chunk_at(column, group, half)], scales[at / 2u] >> (at % 2u * 16u));
}

// Four i8 get there as the lowest bits of 2^23, without a conversion, of which GPUs make a quarter of what they add.
fn from_bytes(word: u32) -> vec4<f32> {
    let bytes = (vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
    return bitcast<vec4<f32>>(bytes ^ vec4<u32>(0x4b000080u)) - vec4<f32>(8388736.0);
}

// Eight elements, as weights: the first or the second.
fn octet_of(piece: ptr<function, Piece>, octet: u32) -> Octet {
    let words = select((*piece).chunk.xy, (*piece).chunk.zw, octet == 1u);
    let scale = unpack2x16float((*piece).scale).x;
    return Octet(scale * from_bytes(words.x), scale * from_bytes(words.y));
}
