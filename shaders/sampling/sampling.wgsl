// What the kernels of a draw share. A row of logits is cut into chunks; what is found in each goes to scratch memory, and
// whoever needs the row's result sums up its chunks, always in the same order: so a row never depends on the others.
// Logits are compared as keys, u32 in the same order, which leaves no room for a compiler's idea of NaN and infinity.

struct Row {
    top_k: u32,              // 0: all
    top_p: f32,              // 1 or more: all
    inverse: f32,            // 1 / temperature; 0: greedy
    reach: f32,              // farther than this below the greatest logit a token has no probability to speak of
    distance: f32,           // farther than this below the greatest logit a token is left out by min_p
    seed_low: u32,
    seed_high: u32,
    index: u32,              // place of the token in its answer
    logprobs: u32,           // 0: none asked for; else 1 + how many of the likeliest
    mask: u32,               // 0: none; else 1 + which of the masks
    levels: u32,             // of the search for what top_k and top_p leave; 0: neither is asked for
    repetition: f32,
    inverse_repetition: f32, // 1 / repetition
    presence: f32,
    frequency: f32,
    first_kept: u32,         // its kept adjustments in the lists, ascending by token
    kept: u32,
    first_change: u32,       // those that have changed since, ascending by token
    changes: u32,
    unused: u32,
}

struct Params {
    vocabulary: u32,
    stride4: u32, // a row of logits / 4, padded
    chunks: u32,  // of a row
    chunk4: u32,  // logits of a chunk / 4
    samples: u32, // rows there is room for
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

const LEAST: u32 = 0x00800000u; // key of the least finite number
const MOST: u32 = 0xff7fffffu;  // key of the greatest finite number
const NONE: u32 = 0xffffffffu;  // no token
const TOP: u32 = 20u;           // likeliest tokens there is room for
const LISTED: u32 = 128u;       // tokens that a chunk lists at most

@group(0) @binding(0) var<storage, read> rows: array<Row>; // [samples]
@group(0) @binding(4) var<uniform> params: Params;

// The key of a logit; 0 where it is impossible: minus infinity, or no number. Plus infinity is the greatest finite number.
fn keys(bits: vec4<u32>) -> vec4<u32> {
    let plain = select(bits, vec4<u32>(), bits == vec4<u32>(0x80000000u)); // -0 is 0
    let ordered = select(plain | vec4<u32>(0x80000000u), ~plain, plain >= vec4<u32>(0x80000000u));
    let bounded = select(ordered, vec4<u32>(MOST), ordered == vec4<u32>(0xff800000u));
    return select(bounded, vec4<u32>(), max(bounded - vec4<u32>(LEAST), vec4<u32>(MOST - LEAST)) > vec4<u32>(MOST - LEAST));
}

// The logits of keys. Of an impossible one: anything.
fn logits_of(key: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(select(~key, key & vec4<u32>(0x7fffffffu), key >= vec4<u32>(0x80000000u)));
}

// The same, none so great that a difference of two would be infinite.
fn numbers(key: vec4<u32>) -> vec4<f32> {
    return clamp(logits_of(key), vec4<f32>(-1.7e38), vec4<f32>(1.7e38));
}

fn number(key: u32) -> f32 {
    return numbers(vec4<u32>(key)).x;
}

// Natural logarithm of a normal number above 0, within about one unit in the last place, near 1 too, where WGSL's own may
// be off by more than its value. Source: `logf` of the Cephes library.
fn logarithm(x: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(x);
    let half = bitcast<vec4<f32>>((bits & vec4<u32>(0x007fffffu)) | vec4<u32>(0x3f000000u)); // 0.5 to 1
    let low = half < vec4<f32>(0.70710678);
    let exponent = vec4<f32>(bits >> vec4<u32>(23u)) - select(vec4<f32>(126.0), vec4<f32>(127.0), low);
    let m = select(half, half + half, low) - vec4<f32>(1.0);
    let square = m * m;
    var y = m * 7.0376836292e-2 - vec4<f32>(1.1514610310e-1);
    y = y * m + vec4<f32>(1.1676998740e-1);
    y = y * m - vec4<f32>(1.2420140846e-1);
    y = y * m + vec4<f32>(1.4249322787e-1);
    y = y * m - vec4<f32>(1.6668057665e-1);
    y = y * m + vec4<f32>(2.0000714765e-1);
    y = y * m - vec4<f32>(2.4999993993e-1);
    y = y * m + vec4<f32>(3.3333331174e-1);
    y = y * m * square - exponent * 2.12194440e-4 - square * 0.5;
    return m + y + exponent * 0.693359375;
}
