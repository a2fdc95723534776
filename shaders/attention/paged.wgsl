// Where a position of a sequence lies in the KV blocks.

@group(0) @binding(1) var<storage, read> tables: array<u32>; // [max_rows * blocks of a sequence]: blocks of each sequence of the step

const BLOCK: u32 = 16u; // positions of a block

// Place among all positions of all blocks.
fn paged(table: u32, position: u32) -> u32 {
    return tables[table + position / BLOCK] * BLOCK + position % BLOCK;
}
