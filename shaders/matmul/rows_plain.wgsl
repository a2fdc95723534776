// Which rows a tile of a product has: those of a step in order, of one matrix.

const ROUTED: bool = false;

fn first_row(tile: u32) -> u32 {
    return tile * ROWS;
}

fn end_row(tile: u32) -> u32 {
    return row_count();
}

fn input_row(tile: u32, row: u32) -> u32 {
    return row;
}

fn output_row(tile: u32, row: u32) -> u32 {
    return row;
}

// Tiles of 32 columns before those of its weights.
fn tiles_before(tile: u32) -> u32 {
    return 0u;
}
