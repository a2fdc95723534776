// What the 8 lanes of a workgroup of the software attention make of what each of them has, told by broadcasts. Needs subgroups of 8
// or more.

fn most_of_lanes(lane: u32, x: f32) -> f32 {
    var most = max(subgroupBroadcast(x, 0u), subgroupBroadcast(x, 1u));
    most = max(most, max(subgroupBroadcast(x, 2u), subgroupBroadcast(x, 3u)));
    most = max(most, max(subgroupBroadcast(x, 4u), subgroupBroadcast(x, 5u)));
    return max(most, max(subgroupBroadcast(x, 6u), subgroupBroadcast(x, 7u)));
}

fn sum_of_lanes(x: vec4<f32>) -> vec4<f32> {
    let low = subgroupBroadcast(x, 0u) + subgroupBroadcast(x, 1u) + subgroupBroadcast(x, 2u) + subgroupBroadcast(x, 3u);
    return low + subgroupBroadcast(x, 4u) + subgroupBroadcast(x, 5u) + subgroupBroadcast(x, 6u) + subgroupBroadcast(x, 7u);
}

// Of nine that all lanes have: the sum of the one with the lane's number, and that of the last.
fn add_lanes(lane: u32, x: array<vec4<f32>, 9>) -> array<vec4<f32>, 2> {
    var own = sum_of_lanes(x[0]);
    own = select(own, sum_of_lanes(x[1]), lane == 1u);
    own = select(own, sum_of_lanes(x[2]), lane == 2u);
    own = select(own, sum_of_lanes(x[3]), lane == 3u);
    own = select(own, sum_of_lanes(x[4]), lane == 4u);
    own = select(own, sum_of_lanes(x[5]), lane == 5u);
    own = select(own, sum_of_lanes(x[6]), lane == 6u);
    own = select(own, sum_of_lanes(x[7]), lane == 7u);
    return array<vec4<f32>, 2>(own, sum_of_lanes(x[8]));
}
