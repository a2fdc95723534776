// What attention_weights_direct.wgsl has for each lane: the host writes this out for lanes 0 to 7, with the lane's number for $N.

fn weight_$N(
    g: u32,
    four: Four,
    head: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    let scales = scales_left(four, head);
    for (var q = 0u; q < QUERIES; q++) {
        let weight = exp(scores[(*starts)[q] + g * 8u + $Nu] - (*highest)[q]);
        (*x)[q] = scaled(weight, scales);
        (*totals)[q] += weight;
    }
}

fn place_$N(table: u32, position: u32, last: u32, place: u32) -> u32 {
    return paged(table, min(position + 4u * $Nu, last & 0xfffffffcu));
}
