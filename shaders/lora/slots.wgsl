// Low-rank adapters of a matrix: which of them a row has, and where its numbers lie.

struct Slot {
    a: u32,           // where A begins in `a`
    b: u32,           // where B begins in `b`
    rank: u32,        // of all matrices that are multiplied together; 0 where the adapter leaves them as they are
    unused: u32,
    ranks: vec4<u32>, // of each of up to three that lie beside each other; of two in turn, the larger rank twice
}

@group(0) @binding(6) var<storage, read> adapted: array<vec2<u32>>; // [rows] of (1 + slot of the row or 0, the i-th row that has one)
@group(0) @binding(7) var<storage, read> slots: array<Slot>;
