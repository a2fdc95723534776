// The search for the least key that top_k and top_p leave, without sorting: every level cuts the interval of keys that it
// must be in to a sixteenth, by how many tokens, and how much probability, of the interval are at or above sixteen borders.
// The first two levels cut it evenly by logits, as those are spread, the others by keys, so that no more than eight of them
// find one border exactly.
//
// It goes through what the chunks have listed, which is all tokens above the greatest of those that no chunk lists. Should
// the border be farther down, one level says so, and the search goes on through the whole row.

const BY_COUNT: u32 = 0u; // looks for the border of top_k
const BY_MASS: u32 = 1u;  // looks for that of top_p, among what top_k left
const FOUND: u32 = 2u;    // `low` is the border

// Farther than this below the greatest scaled logit tokens have no mass that a sum of f32 would show, however many.
const WEIGHTLESS: f32 = 40.0;

// Levels that cut evenly by logits.
const EVEN: u32 = 2u;

struct Search {
    low: u32,        // the border is here or above
    high: u32,       // and here or below
    phase: u32,
    above: u32,      // tokens above `high`
    most: u32,       // key of the greatest logit
    wanted: f32,     // mass to be reached; below 0 until the first level by mass is summed up
    above_mass: f32, // of the tokens above `high`
    whole: bool,     // it goes through the whole row, not only through what is listed
    open: bool,      // the border may be below all that is listed
    level: u32,      // how often the interval of this border was cut
}

// After the border of top_k, that of top_p; `low` is the least key that is left.
fn then_by_mass(row: u32, s: Search, low: u32) -> Search {
    let phase = select(FOUND, BY_MASS, rows[row].top_p < 1.0 && low < s.most);
    return Search(low, s.most, phase, 0u, s.most, -1.0, 0.0, s.whole, false, 0u);
}

// The same search through the rest of the row, below what is listed and has been counted. Should the border be among what is
// so unlikely that it is never drawn, it does not matter where; that of top_k also says of how much top_p takes its share.
fn through_rest(row: u32, s: Search, count: u32, mass: f32) -> Search {
    let depth = select(HOPELESS, WEIGHTLESS, s.phase == BY_COUNT);
    let least = max(number(s.most) - depth / rows[row].inverse, -1.7e38);
    let high = s.low - 1u;
    let low = clamp(key_of(least), LEAST, high);
    return Search(low, high, s.phase, count, s.most, s.wanted, mass, true, false, 0u);
}

fn begin_search(row: u32, lane: u32, most: u32) -> Search {
    var unlisted = 0u;
    var mass = 0.0;
    for (var chunk = first_of(lane); chunk < params.chunks; chunk += STEP) {
        unlisted = max(unlisted, scratch[drawn_at(row, chunk)].y);
        mass += bitcast<f32>(scratch[drawn_at(row, chunk) + 1u].x);
    }
    unlisted = share_most(lane, unlisted);
    mass = share_sum(lane, mass);
    let below = (number(most) - number(unlisted)) * rows[row].inverse;
    let open = unlisted > 0u && below < WEIGHTLESS;
    let low = max(unlisted + 1u, LEAST);
    if (most < LEAST) {
        return Search(LEAST, most, FOUND, 0u, most, -1.0, 0.0, false, false, 0u);
    }
    var s = Search(low, most, BY_COUNT, 0u, most, -1.0, 0.0, false, open, 0u);
    if (!counts_tokens(row)) {
        s.phase = BY_MASS;
        s.wanted = mass * rows[row].top_p;
    }
    if (low > most) {
        s = through_rest(row, s, 0u, 0.0);
    }
    return s;
}

fn key_of(logit: f32) -> u32 {
    return keys(vec4<u32>(bitcast<u32>(logit))).x;
}

// The four borders from number `first`, ascending; the first of all is `low`.
fn borders(s: Search, first: u32) -> vec4<u32> {
    let index = vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u);
    if (s.level < EVEN) {
        let least = number(s.low);
        let step = number(s.high) / 16.0 - least / 16.0;
        let logits = vec4<f32>(least) + vec4<f32>(index) * step;
        let border = clamp(keys(bitcast<vec4<u32>>(logits)), vec4<u32>(s.low), vec4<u32>(s.high));
        return select(border, vec4<u32>(s.low), index == vec4<u32>());
    }
    return vec4<u32>(s.low) + index * ((s.high - s.low) / 16u + 1u);
}

fn all_borders(s: Search) -> Counts {
    return Counts(borders(s, 0u), borders(s, 4u), borders(s, 8u), borders(s, 12u));
}

fn ones(test: vec4<bool>) -> u32 {
    let each = select(vec4<u32>(), vec4<u32>(1u), test);
    return each.x + each.y + each.z + each.w;
}

// Number `index` of 16 and of one more, which is 0.
fn pick(tally: Counts, index: u32) -> u32 {
    let four = select(
        select(tally.d, tally.c, index < 12u),
        select(tally.b, tally.a, index < 4u),
        index < 8u,
    );
    let place = index % 4u;
    let picked = select(select(four.w, four.z, place == 2u), select(four.y, four.x, place == 0u), place < 2u);
    return select(picked, 0u, index > 15u);
}

fn pick_mass(tally: Masses, index: u32) -> f32 {
    let bits = Counts(
        bitcast<vec4<u32>>(tally.a),
        bitcast<vec4<u32>>(tally.b),
        bitcast<vec4<u32>>(tally.c),
        bitcast<vec4<u32>>(tally.d),
    );
    return bitcast<f32>(pick(bits, index));
}

// The interval after a level.
fn narrow(row: u32, s: Search, at: Counts, counts: Counts, masses: Masses) -> Search {
    if (s.phase == FOUND) {
        return s;
    }
    // Both counts and masses fall from border to border: how many reach what is wanted says which is the last that does.
    var reach = 0u;
    var wanted = s.wanted;
    var above_mass = 0.0;
    if (s.phase == BY_COUNT) {
        // As many are above the interval as are known to be too few.
        let k = vec4<u32>(rows[row].top_k - s.above);
        reach = ones(counts.a >= k) + ones(counts.b >= k) + ones(counts.c >= k) + ones(counts.d >= k);
        if (reach == 0u) {
            if (s.open) {
                return through_rest(row, s, counts.a.x, masses.a.x);
            }
            return then_by_mass(row, s, s.low);
        }
    } else {
        if (wanted < 0.0) {
            wanted = masses.a.x * rows[row].top_p;
        }
        let p = vec4<f32>(wanted);
        let m = vec4<f32>(s.above_mass);
        reach = ones(m + masses.a >= p) + ones(m + masses.b >= p) + ones(m + masses.c >= p) + ones(m + masses.d >= p);
        if (reach == 0u && s.open) {
            return through_rest(row, s, counts.a.x, masses.a.x);
        }
        // The first border does; it may seem not to, by the rounding of another order of sums.
        reach = max(reach, 1u);
        above_mass = s.above_mass + pick_mass(masses, reach);
    }
    let low = pick(at, reach - 1u);
    let high = select(s.high, min(s.high, pick(at, reach) - 1u), reach < 16u);
    let above = s.above + pick(counts, reach);
    let count = s.above + pick(counts, reach - 1u);
    let ends = low >= high || count - above <= 1u;
    if (s.phase == BY_COUNT && (ends || count == rows[row].top_k)) {
        return then_by_mass(row, s, low);
    }
    let phase = select(s.phase, FOUND, ends);
    return Search(low, high, phase, above, s.most, wanted, above_mass, s.whole, false, s.level + 1u);
}
