// How lanes of the software attention come by what they all need: each reads a part and tells the others. Needs subgroups of 8 or more.

// Quads of a head that a lane holds for all.
fn hold_queries(g: u32, lane: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + lane;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*own)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}
