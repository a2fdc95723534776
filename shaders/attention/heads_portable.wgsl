// Workgroup: one head of one row; a head is at most LANES * 4 elements. Grid: (heads, rows).

@compute @workgroup_size(LANES)
fn main(place: Place) {
    let head = place.group.x;
    let heads = params.heads + 2u * params.kv_heads;
    let source = (place.group.y * heads + head) * params.stride4 * 4u;
    var scale = 1.0;
    if (is_normed(head)) {
        var squares = 0.0;
        if (place.lane < params.stride4) {
            for (var i = 0u; i < 4u; i++) {
                let x = biased(source, head, place.lane * 4u + i);
                squares += x * x;
            }
        }
        scale = inverseSqrt(workgroup_sum(place, squares) / params.dim + params.epsilon);
    }
    var x = vec4<f32>();
    if (place.lane < params.stride4) {
        x = quad_of(place.group.y, head, place.lane, scale);
    }
    var greatest = 0.0;
    if (is_scaled(head)) {
        greatest = workgroup_max(place, magnitude(x));
        if (place.lane == 0u) {
            put_scale(place.group.y, head, greatest);
        }
    }
    if (place.lane < params.stride4) {
        put(place.group.y, head, place.lane, x, greatest);
    }
}
