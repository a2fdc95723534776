// The search for the least key that top_k and top_p leave, without sorting: every level cuts the interval of keys that it
// must be in to a sixteenth, by how many tokens, and how much probability, of the interval are at or above sixteen borders.
// Eight levels find one border exactly; a level whose interval holds one token, or that counts just top_k, ends it early.
// A chunk without a token in the interval is not read again.

struct Counts { a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32> }
struct Masses { a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32> }

const BY_COUNT: u32 = 0u; // looks for the border of top_k
const BY_MASS: u32 = 1u;  // looks for that of top_p, among what top_k left
const FOUND: u32 = 2u;    // `low` is the border

struct Search {
    low: u32,        // the border is here or above
    high: u32,       // and here or below
    phase: u32,
    above: u32,      // tokens above `high`
    most: u32,       // key of the greatest logit
    wanted: f32,     // mass to be reached; below 0 until the first level by mass is summed up
    above_mass: f32, // of the tokens above `high`
    idle: bool,      // this chunk has no token in the interval
}
