// Grouping on GPUs. One workgroup.

var<workgroup> counts: array<atomic<u32>, MOST>;
var<workgroup> firsts: array<u32, MOST>;
var<workgroup> tiles: u32;

@compute @workgroup_size(LANES)
fn main(@builtin(local_invocation_index) lane: u32) {
    let pairs = step.rows * params.chosen;
    for (var e = lane; e < params.experts; e += LANES) {
        atomicStore(&counts[e], 0u);
    }
    workgroupBarrier();
    for (var p = lane; p < pairs; p += LANES) {
        atomicAdd(&counts[expert_of(p)], 1u);
    }
    workgroupBarrier();
    for (var e = lane; e < params.experts; e += LANES) {
        var first = 0u;
        for (var before = 0u; before < e; before++) {
            first += (atomicLoad(&counts[before]) + TILE - 1u) / TILE;
        }
        firsts[e] = first;
        let next = begin_tiles(e, atomicLoad(&counts[e]), first);
        if (e == params.experts - 1u) {
            tiles = next;
        }
    }
    workgroupBarrier();
    for (var e = lane; e < params.experts; e += LANES) {
        atomicStore(&counts[e], 0u);
    }
    workgroupBarrier();
    for (var p = lane; p < pairs; p += LANES) {
        let expert = expert_of(p);
        put(p, firsts[expert], atomicAdd(&counts[expert], 1u));
    }
    for (var tile = tiles + lane; tile < most_tiles(pairs); tile += LANES) {
        groups[tile * 12u + 1u] = 0u;
    }
}
