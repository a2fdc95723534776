// Where the parts of a weight matrix lie when its rows follow each other. A row is cut into groups of 32 elements.

fn chunk_at(row: u32, group: u32, chunk: u32) -> u32 {
    return (row * params.groups + group) * CHUNKS + chunk;
}

fn scale_at(row: u32, group: u32) -> u32 {
    return row * params.groups + group;
}

fn super_at(row: u32, group: u32) -> u32 {
    return row * (params.groups / 8u) + group / 8u;
}

fn high_at(row: u32, group: u32) -> u32 {
    return row * params.groups + group;
}
