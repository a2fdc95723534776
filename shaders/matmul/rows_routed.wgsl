// Which rows a tile of a product with experts has: pairs of a row and an expert that it goes through, all of one expert
// (experts/group_*.wgsl). Pair `chosen * row + i` is the i-th expert of the row. So the weights of experts that no row goes
// through are not read, and the others once for each tile.

const ROUTED: bool = true;

@group(0) @binding(20) var<storage, read> groups: array<vec4<u32>>; // [tiles, 3]: expert, pairs, two unused, then the pairs

fn first_row(tile: u32) -> u32 {
    return 0u;
}

// None where the expert is in another shard of the weights.
fn end_row(tile: u32) -> u32 {
    let group = groups[tile * 3u];
    return select(0u, group.y, group.x >= params.first_expert && group.x - params.first_expert < params.experts);
}

fn pair_of(tile: u32, row: u32) -> u32 {
    return groups[tile * 3u + 1u + row / 4u][row % 4u];
}

fn input_row(tile: u32, row: u32) -> u32 {
    return pair_of(tile, row) / params.share;
}

fn output_row(tile: u32, row: u32) -> u32 {
    return pair_of(tile, row);
}

// Tiles of 32 columns before those of its weights: of each expert they are whole.
fn tiles_before(tile: u32) -> u32 {
    return (groups[tile * 3u].x - params.first_expert) * ((params.columns4 + 7u) / 8u);
}
