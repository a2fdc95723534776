// What the attention kernels for software adapters share. A workgroup is 8 lanes and takes ROWS rows together, so that a key or a
// value is read once for all of them: a read costs these adapters more than a product, and any read in a loop is one for each lane.
// Positions go in groups of 32 that begin at multiples of 32, every eighth to a lane, so that what all lanes read at once lies together: a
// row is summed in the same order in any company.
//
// The host says which rows go together, after the rows themselves:
// - [alone] of (row, groups that a tile has summed up before, 0, 0): what these kernels take one by one;
// - [tiles, 3] of (groups that its rows see together, 0, 0, 0) and eight rows, the last again where there are fewer. Tiles of
//   neighbours in one sequence come first: those see the same through any window. Rows of several sequences, whose block tables
//   agree so far, do so only where there is no window, and the rest of what each sees is its own.

const NOTHING: f32 = -3.0e38; // A score that softmax makes nothing of.

// Which rows a workgroup takes, and what of the positions that they see. Groups count from the one that the first row sees first.
struct Part {
    table: u32, // where the block table lies that all of them have
    begin: u32, // position where group 0 begins
    seen: u32,  // groups that were summed up before
    groups: u32, // groups up to the last of this part
    last: u32,  // last position that is read
}

fn find_part(index: u32, rows: ptr<function, array<u32, ROWS>>, ends: ptr<function, array<u32, ROWS>>) -> Part {
    var seen = 0u;
    var groups = 0u;
    if (ROWS == 1u) {
        let own = step.entries[step.rows + index];
        (*rows)[0] = own.x;
        seen = select(0u, own.y, params.window == 0xffffffffu);
    } else {
        let tile = step.rows + step.alone + index * 3u;
        groups = step.entries[tile].x;
        for (var r = 0u; r < ROWS; r++) {
            (*rows)[r] = step.entries[tile + 1u + r / 4u][r % 4u];
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        (*ends)[r] = step.entries[(*rows)[r]].z;
    }
    let begin = first_seen((*ends)[0]) / GROUP;
    if (ROWS == 1u) {
        groups = (*ends)[0] / GROUP + 1u;
    }
    let last = min(groups * GROUP - 1u, (*ends)[ROWS - 1u]);
    return Part(step.entries[(*rows)[0]].x, begin * GROUP, seen, groups - begin, last);
}

// Query number `q` of a workgroup, among all heads of all rows.
fn query_of(q: u32, unit: u32, rows: ptr<function, array<u32, ROWS>>) -> u32 {
    return (*rows)[q / HEADS] * params.heads + unit * HEADS + q % HEADS;
}

// Four quads of a key or a value.
struct Four {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}

// Where both blocks of a group begin, which is one where the group ends in the first.
fn blocks_of(part: Part, g: u32) -> vec2<u32> {
    let block = (part.begin + g * GROUP) / BLOCK;
    return vec2<u32>(tables[part.table + block], tables[part.table + min(block + 1u, part.last / BLOCK)]) * BLOCK;
}

// Where a position of a group lies; past the last that is read, the last.
fn place_in(blocks: vec2<u32>, part: Part, position: u32) -> u32 {
    let read = min(position, part.last);
    return select(blocks.x, blocks.y, (read & BLOCK) != 0u) + read % BLOCK;
}

// What a tile leaves of one head after its scores: of each lane the sum of the weights, then those of the values, in quads of the head
// that the values kernel takes by eight, and more of them by sixteen.
fn carried_of_head() -> u32 {
    return (1u + select((params.stride4 + 15u) / 16u * 16u, 8u, params.stride4 <= 8u)) * GROUP;
}

// Scores of one head that there is scratch for in this step, and what is carried: what its rows may see, not all that a sequence may
// come to.
fn scores_of_head() -> u32 {
    return min(params.scratch, (step.positions + GROUP - 1u) / GROUP * GROUP + carried_of_head());
}
