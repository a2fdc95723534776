// What the attention kernels for software adapters share. A workgroup is 8 lanes and takes ROWS rows together, so that a key or a
// value is read once for all of them: a read costs these adapters more than a product, and any read in a loop is one for each lane.
// Positions go in groups of 32 that begin at multiples of 32, every eighth to a lane, so that what all lanes read at once lies together: a
// row is summed in the same order in any company.
//
// The host says which rows go together, after the rows themselves:
// - [alone] of (row, groups that a tile has summed up before, 0, 0): what these kernels take one by one;
// - [tiles, TILE_ENTRIES] of (groups that its rows see together, 0, 0, 0) and its rows, the last again where there are fewer. Tiles of
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
        let tile = step.rows + step.alone + index * TILE_ENTRIES;
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

// What a loop over positions needs to know of a head of the cache. In a loop these adapters read a parameter once for each lane, and
// divide lane by lane.
struct Kept {
    first: u32, // the head's first place, among the places of all heads
    width: u32, // of a head, in what is read at once
}

fn kept_of(unit: u32) -> Kept {
    return Kept(kv_head(unit) * all_places(), width_of_head());
}

// Four scores, or what is carried beside them, which both kernels have at a binding of their own.
fn scores_at(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(words4(scores[i]));
}

fn set_scores(i: u32, x: vec4<f32>) {
    scores[i] = to_words4(bitcast<vec4<u32>>(x));
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
// that the values kernel takes by LEAST_QUADS, and more of them by twice as many.
fn carried_of_head() -> u32 {
    let most = 2u * LEAST_QUADS;
    return (1u + select((params.stride4 + most - 1u) / most * most, LEAST_QUADS, params.stride4 <= LEAST_QUADS)) * GROUP;
}

// Scores of one head that there is scratch for in this step, and what is carried: what its rows may see, not all that a sequence may
// come to.
fn scores_of_head() -> u32 {
    return min(params.scratch, (step.positions + GROUP - 1u) / GROUP * GROUP + carried_of_head());
}
