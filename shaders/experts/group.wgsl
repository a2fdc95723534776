// Pairs of a row and an expert that it goes through, brought together by expert in tiles of TILE, for products that read the
// weights of an expert once for all pairs of a tile (matmul/rows_routed.wgsl). In which order the pairs of an expert are does
// not matter: each has its own place in the output, and its sums are the same in any place of a tile.

struct Params {
    experts: u32,
    chosen: u32,   // experts of a row
    slots: u32,    // routes of a row
    counters: u32, // where numbers of experts lie behind the tiles, in words (group_software.wgsl)
}

@group(0) @binding(2) var<storage, read> routes: array<vec2<u32>>;    // [rows, slots] of (expert, weight)
@group(0) @binding(3) var<storage, read_write> groups: array<u32>;    // [tiles, 12]: expert, pairs, two unused, then the pairs
@group(0) @binding(4) var<uniform> params: Params;

fn expert_of(pair: u32) -> u32 {
    return routes[pair / params.chosen * params.slots + pair % params.chosen].x;
}

// Tiles that there may be, of so many pairs.
fn most_tiles(pairs: u32) -> u32 {
    let begun = min(pairs, params.experts);
    return begun + (pairs - begun) / TILE;
}

// Begins the tiles of an expert with so many pairs; says which is the first of the next.
fn begin_tiles(expert: u32, pairs: u32, first: u32) -> u32 {
    var tile = first;
    for (var done = 0u; done < pairs; done += TILE) {
        groups[tile * 12u] = expert;
        groups[tile * 12u + 1u] = min(pairs - done, TILE);
        tile += 1u;
    }
    return tile;
}

// Puts a pair into its place among those of its expert.
fn put(pair: u32, first: u32, place: u32) {
    groups[(first + place / TILE) * 12u + 4u + place % TILE] = pair;
}
