// RMSNorm for GPUs. Workgroup: one row. Grid: (rows).

@compute @workgroup_size(LANES)
fn main(place: Place) {
    let start = source_row(place.group.x) * params.width4;
    var squares = 0.0;
    for (var k = place.lane; k < params.width4; k += LANES) {
        let x = input[start + k];
        squares += dot(x, x);
    }
    let scale = inverseSqrt(workgroup_sum(place, squares) / params.width + params.epsilon);
    for (var k = place.lane; k < params.width4; k += LANES) {
        norm_store(place.group.x * params.width4 + k, input[start + k] * scale * weight[k]);
    }
}
