// Choosing experts on software adapters. Invocation: one row; each of its experts is looked for among those that come after the
// one before it. Grid: (rows / LANES).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.x * LANES + lane;
    if (row >= step.rows) {
        return;
    }
    let start = row * params.stride;
    var last_key = 0xffffffffu;
    var last = 0u;
    var highest = 0.0;
    var sum = 0.0;
    for (var s = 0u; s < params.chosen; s++) {
        var key = 0u;
        var expert = params.experts;
        for (var e = 0u; e < params.experts; e++) {
            let own = key_of(logits[start + e]);
            let left = s == 0u || own < last_key || (own == last_key && e > last);
            if (left && (own > key || expert == params.experts)) {
                key = own;
                expert = e;
            }
        }
        last_key = key;
        last = expert;
        let logit = logits[start + expert];
        if (s == 0u) {
            highest = logit;
        }
        let share = exp(logit - highest);
        sum += share;
        routes[row * params.slots + s] = vec2<u32>(expert, bitcast<u32>(share));
    }
    if (params.normalized == 0u) {
        sum = 0.0;
        for (var e = 0u; e < params.experts; e++) {
            sum += exp(logits[start + e] - highest);
        }
    }
    for (var s = 0u; s < params.chosen; s++) {
        let at = row * params.slots + s;
        let route = routes[at];
        routes[at] = vec2<u32>(route.x, bitcast<u32>(bitcast<f32>(route.y) / sum));
    }
    write_shared(row);
}
