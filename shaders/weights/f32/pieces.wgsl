// What a lane of matmul_cooperative.wgsl reads at once: half a group of a column, stored as f32.

struct Piece {
    quads: array<vec4<u32>, 4>,
}

struct Octet {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn load_piece(column: u32, group: u32, half: u32) -> Piece {
    var piece: Piece;
    for (var i = 0u; i < 4u; i++) {
        piece.quads[i] = values[chunk_at(column, group, half * 4u + i)];
    }
    return piece;
}

// Eight elements, as weights: the first or the second.
fn octet_of(piece: ptr<function, Piece>, octet: u32) -> Octet {
    return Octet(bitcast<vec4<f32>>((*piece).quads[octet * 2u]), bitcast<vec4<f32>>((*piece).quads[octet * 2u + 1u]));
}
