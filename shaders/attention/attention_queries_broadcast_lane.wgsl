// What attention_queries_broadcast.wgsl has for each lane: the host writes this out for lanes 0 to 7, with the lane's number for $N.

fn query_$N(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = subgroupBroadcast((*own)[q], $Nu);
    }
}
