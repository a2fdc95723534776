// What a row sees is cut into splits of SPLIT positions, and these into parts, one for each workgroup: a split each, unless there were
// more than MOST_PARTS of them. How many there are follows from what the row sees alone.

// Splits of a part of a row that sees so many positions.
fn splits_of_part(count: u32) -> u32 {
    return (count + SPLIT * MOST_PARTS - 1u) / (SPLIT * MOST_PARTS);
}

// Parts of such a row.
fn parts_of_row(count: u32) -> u32 {
    let positions = splits_of_part(count) * SPLIT;
    return (count + positions - 1u) / positions;
}

// Parts of one head that there is scratch for in this step: what its rows may see, not all that a sequence may come to.
fn parts_of_head() -> u32 {
    return min(params.scratch, (step.positions + SPLIT - 1u) / SPLIT);
}
