// LayerNorm for GPUs. Workgroup: one row. A lane reads again only what it wrote itself. Grid: (rows).

@compute @workgroup_size(LANES)
fn main(place: Place) {
    let start = place.group.x * params.width4;
    let addend = addend_row(place.group.x) * params.width4;
    var sum = 0.0;
    for (var k = place.lane; k < params.width4; k += LANES) {
        let x = stream[start + k] + addends[addend + k];
        stream[start + k] = x;
        sum += sum4(x);
    }
    let mean = mean_of(workgroup_sum(place, sum));
    var squares = 0.0;
    for (var k = place.lane; k < params.width4; k += LANES) {
        let x = centred(stream[start + k], mean, k);
        squares += dot(x, x);
    }
    let scale = inverseSqrt(workgroup_sum(place, squares) / f32(params.width) + params.epsilon);
    for (var k = place.lane; k < params.width4; k += LANES) {
        let x = centred(stream[start + k], mean, k);
        put(start + k, x * scale * weights[k] + weights[params.width4 + k]);
    }
}
