// What the attention kernels for software adapters share. A workgroup is 8 lanes and takes ROWS rows together, so that a key or a
// value is read once for all of them: a read costs these adapters more than a product, and any read in a loop is one for each lane.
// Positions go in groups of 32, four to a lane, that begin at multiples of 32: a row is summed in the same order in any company.

const NOTHING: f32 = -3.0e38; // A score that softmax makes nothing of.
const GROUP: u32 = 32u;       // positions of a group

// Whether the TILE rows from `first` on are neighbours in one sequence. Those are taken together, all others one by one.
fn are_neighbours(first: u32) -> bool {
    if (first + TILE > step.rows) {
        return false;
    }
    let entry = step.entries[first];
    var all = true;
    for (var r = 1u; r < TILE; r++) {
        let other = step.entries[first + r];
        all = all && other.x == entry.x && other.z == entry.z + r;
    }
    return all;
}

// Whether the rows from `first` on are this kernel's.
fn is_mine(first: u32) -> bool {
    if (TILE == 1u) {
        return true;
    }
    return are_neighbours(first / TILE * TILE) == (ROWS == TILE);
}

// Scores of one head that there is scratch for in this step: what its rows may see, not all that a sequence may come to.
fn scores_of_head() -> u32 {
    return min(params.scratch, (step.positions + GROUP - 1u) / GROUP * GROUP);
}
