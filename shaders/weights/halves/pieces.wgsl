// What a lane of matmul_cooperative.wgsl reads at once: half a group of a column, stored as floats of 16 bits, two in a word
// (halves_f16.wgsl, halves_bf16.wgsl).

struct Piece {
    chunks: array<vec4<u32>, 2>,
}

struct Octet {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn load_piece(column: u32, group: u32, half: u32) -> Piece {
    var piece: Piece;
    for (var i = 0u; i < 2u; i++) {
        piece.chunks[i] = values[chunk_at(column, group, half * 2u + i)];
    }
    return piece;
}

// Eight elements, as weights: the first or the second.
fn octet_of(piece: ptr<function, Piece>, octet: u32) -> Octet {
    let chunk = (*piece).chunks[octet];
    return Octet(from_halves(chunk.xy), from_halves(chunk.zw));
}
