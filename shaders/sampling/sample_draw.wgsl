// The Gumbel-max draw of a chunk: the greatest of logit / temperature + noise. Task: a chunk. Grid: (tasks, rows).

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

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y;
    let chunk = task_of(group.x, lane);
    if (chunk >= params.chunks || rows[row].inverse == 0.0) {
        return;
    }
    let s = next_search(row, chunk, lane);
    let most = vec4<f32>(number(s.most));
    let inverse = rows[row].inverse;
    let reach = vec4<f32>(min(rows[row].reach, rows[row].distance));
    let seed = vec2<u32>(rows[row].seed_low, rows[row].seed_high);
    let end = chunk_end(chunk);
    var best = vec2<u32>(0u, NONE);
    for (var at4 = chunk * params.chunk4 + first_of(lane); at4 < end; at4 += STEP) {
        let key = keys_at(row, at4);
        let below = most - numbers(key);
        let scaled = min(below, reach) * inverse;
        let kept = select(key, vec4<u32>(), below > reach);
        let hopeful = select(kept, vec4<u32>(), scaled > vec4<f32>(HOPELESS)) >= vec4<u32>(s.low);
        if (any(hopeful)) {
            let scores = noise(philox(at4, rows[row].index, seed)) - scaled;
            let score = select(vec4<u32>(), keys(bitcast<vec4<u32>>(scores)), hopeful);
            best = greatest4(best, score, at4);
        }
    }
    best = share_greatest(lane, best);
    if (speaks(lane)) {
        scratch[drawn_at(row, chunk)] = vec4<u32>(best, 0u, 0u);
    }
}
