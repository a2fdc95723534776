// Where the parts of a weight matrix lie for most kernels, of GPUs and of software adapters: 32 rows make a tile, of which each of 8 lanes has four
// neighbours. A tile is stored group by group (32 elements of each row), a group as [4 rows of a lane, chunks, 8 lanes].

fn tile_group(row: u32, group: u32) -> u32 {
    return row / 32u * params.groups + group;
}

fn chunk_at(row: u32, group: u32, chunk: u32) -> u32 {
    return ((tile_group(row, group) * 4u + row % 4u) * CHUNKS + chunk) * 8u + row % 32u / 4u;
}

fn scale_at(row: u32, group: u32) -> u32 {
    return tile_group(row, group) * 32u + row % 32u;
}

fn super_at(row: u32, group: u32) -> u32 {
    return (row / 32u * (params.groups / 8u) + group / 8u) * 32u + row % 32u;
}

fn high_at(row: u32, group: u32) -> u32 {
    return (tile_group(row, group) * 4u + row % 4u) * 8u + row % 32u / 4u;
}
