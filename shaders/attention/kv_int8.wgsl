// Keys and values kept as int8, four in a u32, with an f32 scale for each head of each position that takes the head's greatest
// element to 127. A scale for a whole block would save some four bytes in a hundred, but be known only when the block is full: until
// then each position that comes may raise it, and those before it be rounded again, so that what a row sees would depend on how its
// prompt was cut and on which of its positions were there already. So it has the same bits in any company.
//
// A head is padded to 16 elements. Where scales lie, [kv_heads, BLOCK] of a block, kv_in_blocks.wgsl and kv_by_head.wgsl say: positions that
// attention reads together have theirs beside each other. UNIT quads of a head are read at once.

alias Kv = u32;

const SCALED: bool = true;          // whether a head has a scale at each position
const SCALES: u32 = BLOCK / UNIT;   // what a block has of scales for a head, in what is read at once
const KEY_QUADS: u32 = 4u;     // quads of a key that GPUs read at once

const LARGEST: f32 = 3.0e38;        // What is larger is kept as this.
const NO_NUMBER: f32 = 3.3e38;      // What stands for an element that is no number, where the greatest is looked for.
const NOTHING_LEFT: f32 = 1.0e-30;  // Where no element is larger, all are kept as zero.

// The greatest of four elements by magnitude.
fn magnitude(x: vec4<f32>) -> f32 {
    let bits = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
    let held = select(min(abs(x), vec4<f32>(LARGEST)), vec4<f32>(NO_NUMBER), bits > vec4<u32>(0x7f800000u));
    return max(max(held.x, held.y), max(held.z, held.w));
}

// `greatest`: of all elements of the head.
fn to_kv(x: vec4<f32>, greatest: f32) -> Kv {
    let inverse = select(127.0 / max(greatest, NOTHING_LEFT), 0.0, greatest < NOTHING_LEFT);
    let held = clamp(x, vec4<f32>(-LARGEST), vec4<f32>(LARGEST));
    return pack4xI8(vec4<i32>(clamp(round(held * inverse), vec4<f32>(-127.0), vec4<f32>(127.0))));
}

// Of a head that has an element which is no number, none is one.
fn scale_to_kv(greatest: f32) -> Kv {
    let scale = select(bitcast<u32>(greatest / 127.0), 0u, greatest < NOTHING_LEFT);
    return select(scale, 0x7fc00000u, greatest > LARGEST);
}

fn from_kv(x: Kv) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(x));
}

// What is read at once of a head, in all.
fn width_of_head() -> u32 {
    return (quads_of_head() + 3u) / 4u * (4u / UNIT);
}
