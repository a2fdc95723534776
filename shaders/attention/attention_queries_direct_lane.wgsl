// What attention_queries_direct.wgsl has for each lane: the host writes this out for lanes 0 to 7, with the lane's number for $N.

fn query_$N(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + $Nu;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}
