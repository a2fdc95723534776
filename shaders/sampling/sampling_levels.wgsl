// The levels of the search; see sampling_search.wgsl.

fn load_search(at: u32) -> Search {
    let a = scratch[at];
    let b = scratch[at + 1u];
    return Search(a.x, a.y, a.z, a.w, b.x, bitcast<f32>(b.y), bitcast<f32>(b.z), false);
}

fn store_search(at: u32, s: Search) {
    scratch[at] = vec4<u32>(s.low, s.high, s.phase, s.above);
    scratch[at + 1u] = vec4<u32>(s.most, bitcast<u32>(s.wanted), bitcast<u32>(s.above_mass), 0u);
}

// (key, token) of the row's greatest logit.
fn row_greatest(row: u32, lane: u32) -> vec2<u32> {
    var best = vec2<u32>();
    for (var chunk = first_of(lane); chunk < params.chunks; chunk += STEP) {
        best = greater(best, scratch[head_at(row, chunk)].xy);
    }
    return share_greatest(lane, best);
}

// After the border of top_k, that of top_p; `low` is the least key that is left.
fn then_by_mass(row: u32, low: u32, most: u32) -> Search {
    let phase = select(FOUND, BY_MASS, rows[row].top_p < 1.0 && low < most);
    return Search(low, most, phase, 0u, most, -1.0, 0.0, false);
}

fn begin_search(row: u32, most: u32) -> Search {
    if (most < LEAST || rows[row].inverse == 0.0) {
        return Search(LEAST, most, FOUND, 0u, most, -1.0, 0.0, true);
    }
    if (rows[row].top_k == 0u || rows[row].top_k >= params.vocabulary) {
        return then_by_mass(row, LEAST, most);
    }
    return Search(LEAST, most, BY_COUNT, 0u, most, -1.0, 0.0, false);
}

fn step_of(s: Search) -> u32 {
    return (s.high - s.low) / 16u + 1u;
}

// The four borders from number `first`.
fn borders(s: Search, first: u32) -> vec4<u32> {
    return vec4<u32>(s.low) + (vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u)) * step_of(s);
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

fn load_counts(at: u32) -> Counts {
    return Counts(scratch[at], scratch[at + 1u], scratch[at + 2u], scratch[at + 3u]);
}

// The interval after a level whose chunks have been counted.
fn narrow(row: u32, chunk: u32, lane: u32, s: Search) -> Search {
    if (ALONE && s.phase == FOUND) {
        return s;
    }
    let before = 1u - params.parity;
    var counts = Counts();
    for (var other = first_of(lane); other < params.chunks; other += STEP) {
        let tally = load_counts(tally_at(row, before, other));
        counts.a += tally.a;
        counts.b += tally.b;
        counts.c += tally.c;
        counts.d += tally.d;
    }
    counts = share_counts(lane, counts);
    var masses = Masses();
    if (!ALONE || s.phase == BY_MASS) {
        for (var other = first_of(lane); other < params.chunks; other += STEP) {
            let tally = load_counts(tally_at(row, before, other) + 4u);
            masses.a += bitcast<vec4<f32>>(tally.a);
            masses.b += bitcast<vec4<f32>>(tally.b);
            masses.c += bitcast<vec4<f32>>(tally.c);
            masses.d += bitcast<vec4<f32>>(tally.d);
        }
    }
    masses = share_masses(lane, masses);
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
            return then_by_mass(row, s.low, s.most);
        }
    } else {
        if (wanted < 0.0) {
            wanted = masses.a.x * rows[row].top_p;
        }
        let p = vec4<f32>(wanted);
        let m = vec4<f32>(s.above_mass);
        reach = ones(m + masses.a >= p) + ones(m + masses.b >= p) + ones(m + masses.c >= p) + ones(m + masses.d >= p);
        // The first border does; it may seem not to, by the rounding of another order of sums.
        reach = max(reach, 1u);
        above_mass = s.above_mass + pick_mass(masses, reach);
    }
    let low = s.low + (reach - 1u) * step_of(s);
    let high = select(s.high, min(s.high, low + step_of(s) - 1u), reach < 16u);
    let above = s.above + pick(counts, reach);
    let count = s.above + pick(counts, reach - 1u);
    let ends = low >= high || count - above <= 1u;
    if (s.phase == BY_COUNT && (ends || count == rows[row].top_k)) {
        return then_by_mass(row, low, s.most);
    }
    let own = load_counts(tally_at(row, before, chunk));
    let idle = pick(own, reach - 1u) == pick(own, reach);
    let phase = select(s.phase, FOUND, ends);
    return Search(low, high, phase, above, s.most, wanted, above_mass, idle);
}

// The state that a level starts from.
fn next_search(row: u32, chunk: u32, lane: u32) -> Search {
    if (params.begins == 1u) {
        return begin_search(row, row_greatest(row, lane).x);
    }
    return narrow(row, chunk, lane, load_search(state_at(row, 1u - params.parity)));
}
