// How the lanes of the software matmul come by the input where they cannot tell each other: each loads every quad. What lies beyond
// the width meets weights of zero: any quad of the row will do there.

fn load_rows(g: u32, lane: u32, last: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>) {
}

fn spread_0(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = input4((*starts)[r] + min(g * 8u + 0u, params.width4 - 1u));
    }
}

fn spread_1(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = input4((*starts)[r] + min(g * 8u + 1u, params.width4 - 1u));
    }
}

fn spread_2(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = input4((*starts)[r] + min(g * 8u + 2u, params.width4 - 1u));
    }
}

fn spread_3(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = input4((*starts)[r] + min(g * 8u + 3u, params.width4 - 1u));
    }
}

fn spread_4(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = input4((*starts)[r] + min(g * 8u + 4u, params.width4 - 1u));
    }
}

fn spread_5(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = input4((*starts)[r] + min(g * 8u + 5u, params.width4 - 1u));
    }
}

fn spread_6(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = input4((*starts)[r] + min(g * 8u + 6u, params.width4 - 1u));
    }
}

fn spread_7(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = input4((*starts)[r] + min(g * 8u + 7u, params.width4 - 1u));
    }
}
