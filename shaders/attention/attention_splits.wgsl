// What a row sees is cut into splits of SPLIT positions, at multiples of SPLIT, and these into parts, one for each workgroup, at
// multiples of a part: a split each, unless there were more than MOST_PARTS of them. Which there are follows from the row's
// position and the window alone, and where they begin is the same for all rows with as many splits in a part.

// Positions of a part of the row at `position`.
fn part_of(position: u32) -> u32 {
    let before = position / SPLIT + 1u;
    let seen = (params.window - 1u) / SPLIT + 2u;
    // Parts that begin elsewhere than what is seen are one more.
    let most = select(MOST_PARTS, MOST_PARTS - 1u, before >= seen);
    return (min(before, seen) + most - 1u) / most * SPLIT;
}

// The first part of which the row sees something.
fn first_part(position: u32) -> u32 {
    return first_seen(position) / part_of(position);
}

// How many there are.
fn parts_of_row(position: u32) -> u32 {
    return position / part_of(position) + 1u - first_part(position);
}

// Parts of one head that there is scratch for in this step: what its rows may see, not all that a sequence may come to.
fn parts_of_head() -> u32 {
    return min(params.scratch, (step.positions + SPLIT - 1u) / SPLIT);
}
