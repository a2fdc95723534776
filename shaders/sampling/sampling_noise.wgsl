// The noise of the Gumbel-max draw, and what scores a token.

// More than this below the greatest scaled logit no noise can win: noise is between -2.82 and 16.64.
const HOPELESS: f32 = 20.0;

// Upper halves of products of two u32.
fn high_product(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let mask = vec2<u32>(0xffffu);
    let shift = vec2<u32>(16u);
    let low = (a & mask) * (b & mask);
    let middle = (a >> shift) * (b & mask) + (low >> shift);
    let other = (a & mask) * (b >> shift) + (middle & mask);
    return (a >> shift) * (b >> shift) + (middle >> shift) + (other >> shift);
}

// Philox4x32-10 at counter (block, index, 0, 0). Source: Salmon et al. 2011.
fn philox(block: u32, index: u32, seed: vec2<u32>) -> vec4<u32> {
    let factors = vec2<u32>(0xd2511f53u, 0xcd9e8d57u);
    var counter = vec4<u32>(block, index, 0u, 0u);
    var key = seed;
    for (var round = 0u; round < 10u; round++) {
        let high = high_product(counter.xz, factors);
        let low = counter.xz * factors;
        counter = vec4<u32>(high.y ^ counter.y ^ key.x, low.y, high.x ^ counter.w ^ key.y, low.x);
        key += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return counter;
}

// -ln(-ln u): the uniform numbers are exact in f32.
fn noise(words: vec4<u32>) -> vec4<f32> {
    let uniform_numbers = (vec4<f32>(words >> vec4<u32>(9u)) + vec4<f32>(0.5)) * (1.0 / 8388608.0);
    return -logarithm(-logarithm(uniform_numbers));
}

// What a row's draw asks of its tokens.
struct Draw {
    most: f32,    // the greatest logit
    reach: f32,   // farther than this below it a token is left out
    inverse: f32, // 1 / temperature
    low: u32,     // tokens of lesser keys are left out
    index: u32,
    seed: vec2<u32>,
}

fn draw_of(row: u32, greatest: u32, low: u32) -> Draw {
    let reach = min(rows[row].reach, rows[row].distance);
    let seed = vec2<u32>(rows[row].seed_low, rows[row].seed_high);
    return Draw(number(greatest), reach, rows[row].inverse, low, rows[row].index, seed);
}

// `best`, or what scores most of the four tokens at `at4` if that is more.
fn best_score(best: vec2<u32>, draw: Draw, key: vec4<u32>, at4: u32) -> vec2<u32> {
    let reach = vec4<f32>(draw.reach);
    let below = vec4<f32>(draw.most) - numbers(key);
    let scaled = min(below, reach) * draw.inverse;
    let kept = select(key, vec4<u32>(), below > reach);
    let hopeful = select(kept, vec4<u32>(), scaled > vec4<f32>(HOPELESS)) >= vec4<u32>(draw.low);
    if (!any(hopeful)) {
        return best;
    }
    let scores = noise(philox(at4, draw.index, draw.seed)) - scaled;
    let score = select(vec4<u32>(), keys(bitcast<vec4<u32>>(scores)), hopeful);
    return greatest4(best, score, at4);
}
