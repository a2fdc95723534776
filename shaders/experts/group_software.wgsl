// Grouping on software adapters. One invocation, which counts behind the tiles: [experts] pairs, then [experts] first tiles.

@compute @workgroup_size(1)
fn main() {
    let pairs = step.rows * params.chosen;
    let counts = params.counters;
    let firsts = counts + params.experts;
    for (var e = 0u; e < params.experts; e++) {
        groups[counts + e] = 0u;
    }
    for (var p = 0u; p < pairs; p++) {
        groups[counts + expert_of(p)] += 1u;
    }
    var tile = 0u;
    for (var e = 0u; e < params.experts; e++) {
        groups[firsts + e] = tile;
        tile = begin_tiles(e, groups[counts + e], tile);
        groups[counts + e] = 0u;
    }
    for (var p = 0u; p < pairs; p++) {
        let expert = expert_of(p);
        put(p, groups[firsts + expert], groups[counts + expert]);
        groups[counts + expert] += 1u;
    }
    for (; tile < most_tiles(pairs); tile++) {
        groups[tile * 12u + 1u] = 0u;
    }
}
