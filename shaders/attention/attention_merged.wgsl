// Elements 4 * d to 4 * d + 3 of a head of a row, from its parts, in their order.
fn merged(head: u32, all: u32, d: u32) -> vec4<f32> {
    let stride = params.stride4 + 1u;
    let first = head * parts_of_head() * stride;
    var highest = -3.0e38;
    for (var s = 0u; s < all; s++) {
        highest = max(highest, parts[first + s * stride + params.stride4].x);
    }
    var total = 0.0;
    var sum = vec4<f32>();
    for (var s = 0u; s < all; s++) {
        let state = parts[first + s * stride + params.stride4];
        let weight = exp(state.x - highest);
        total += weight * state.y;
        sum += weight * parts[first + s * stride + d];
    }
    return sum / with_sink(total, highest, head);
}
