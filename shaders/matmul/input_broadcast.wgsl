// How the lanes of the software matmul come by the input: each loads a quad of the group, and tells the others. Needs subgroups of
// 8 lanes or more. What lies beyond the width meets weights of zero: any quad of the row will do there.

fn load_rows(g: u32, lane: u32, last: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*own)[r] = input4((*starts)[r] + min(g * 8u + lane, last));
    }
}

fn spread_0(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = subgroupBroadcast((*own)[r], 0u);
    }
}

fn spread_1(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = subgroupBroadcast((*own)[r], 1u);
    }
}

fn spread_2(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = subgroupBroadcast((*own)[r], 2u);
    }
}

fn spread_3(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = subgroupBroadcast((*own)[r], 3u);
    }
}

fn spread_4(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = subgroupBroadcast((*own)[r], 4u);
    }
}

fn spread_5(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = subgroupBroadcast((*own)[r], 5u);
    }
}

fn spread_6(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = subgroupBroadcast((*own)[r], 6u);
    }
}

fn spread_7(g: u32, starts: ptr<function, array<u32, ROWS>>, own: ptr<function, array<vec4<f32>, ROWS>>, x: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        (*x)[r] = subgroupBroadcast((*own)[r], 7u);
    }
}
