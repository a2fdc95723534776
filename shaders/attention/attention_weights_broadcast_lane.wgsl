// What attention_weights_broadcast.wgsl has for each lane: the host writes this out for lanes 0 to 7, with the lane's number for $N.

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
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = subgroupBroadcast((*own)[q], $Nu);
    }
}

fn place_$N(table: u32, position: u32, last: u32, place: u32) -> u32 {
    return subgroupBroadcast(place, $Nu);
}
