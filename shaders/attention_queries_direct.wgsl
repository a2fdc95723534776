// How lanes of the software attention come by what they all need: each reads all of it.

fn hold_queries(g: u32, lane: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>) {
}

fn query_0(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + 0u;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}

fn query_1(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + 1u;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}

fn query_2(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + 2u;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}

fn query_3(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + 3u;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}

fn query_4(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + 4u;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}

fn query_5(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + 5u;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}

fn query_6(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + 6u;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}

fn query_7(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + 7u;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}
