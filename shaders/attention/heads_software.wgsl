// Invocation: one head of one row. Grid: (heads / LANES, rows).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x * LANES + lane;
    let heads = params.heads + 2u * params.kv_heads;
    if (head >= heads) {
        return;
    }
    let source = (group.y * heads + head) * params.stride4 * 4u;
    var scale = 1.0;
    if (is_normed(head)) {
        var squares = 0.0;
        for (var e = 0u; e < params.stride4 * 4u; e++) {
            let x = biased(source, head, e);
            squares += x * x;
        }
        scale = inverseSqrt(squares / params.dim + params.epsilon);
    }
    var greatest = 0.0;
    if (is_scaled(head)) {
        for (var e4 = 0u; e4 < params.stride4; e4++) {
            greatest = max(greatest, magnitude(quad_of(group.y, head, e4, scale)));
        }
        put_scale(group.y, head, greatest);
    }
    for (var e4 = 0u; e4 < params.stride4; e4++) {
        put(group.y, head, e4, quad_of(group.y, head, e4, scale), greatest);
    }
}
