// The results of rows of which top_k or top_p cut some: their borders, the draw among what is left, and whatever
// sample_finish.wgsl does. Task: a row. Grid: (tasks).

struct Tally { counts: Counts, masses: Masses }

fn count_key(counts: Counts, at: Counts, key: u32) -> Counts {
    let k = vec4<u32>(key);
    let one = vec4<u32>(1u);
    let no = vec4<u32>();
    return Counts(
        counts.a + select(no, one, k >= at.a),
        counts.b + select(no, one, k >= at.b),
        counts.c + select(no, one, k >= at.c),
        counts.d + select(no, one, k >= at.d),
    );
}

fn add_mass(masses: Masses, at: Counts, key: u32, mass: f32) -> Masses {
    let k = vec4<u32>(key);
    let m = vec4<f32>(mass);
    let no = vec4<f32>();
    return Masses(
        masses.a + select(no, m, k >= at.a),
        masses.b + select(no, m, k >= at.b),
        masses.c + select(no, m, k >= at.c),
        masses.d + select(no, m, k >= at.d),
    );
}

// Counts and masses of what a lane looks at, at sixteen borders. What is outside the interval counts nowhere.
fn count_level(row: u32, lane: u32, s: Search, at_borders: Counts) -> Tally {
    var tally = Tally();
    if (s.phase == FOUND) {
        return tally;
    }
    let width = s.high - s.low;
    let most = number(s.most);
    let reach = rows[row].reach;
    let inverse = rows[row].inverse;
    if (s.whole) {
        for (var at4 = first_of(lane); at4 < params.stride4; at4 += STEP) {
            let found = keys_at(row, at4);
            let inside = found - vec4<u32>(s.low) <= vec4<u32>(width);
            if (any(inside)) {
                let key = select(vec4<u32>(), found, inside);
                tally.counts = count_key(tally.counts, at_borders, key.x);
                tally.counts = count_key(tally.counts, at_borders, key.y);
                tally.counts = count_key(tally.counts, at_borders, key.z);
                tally.counts = count_key(tally.counts, at_borders, key.w);
                if (s.phase == BY_MASS) {
                    let mass = exp(min(vec4<f32>(most) - numbers(found), vec4<f32>(reach)) * -inverse);
                    tally.masses = add_mass(tally.masses, at_borders, key.x, mass.x);
                    tally.masses = add_mass(tally.masses, at_borders, key.y, mass.y);
                    tally.masses = add_mass(tally.masses, at_borders, key.z, mass.z);
                    tally.masses = add_mass(tally.masses, at_borders, key.w, mass.w);
                }
            }
        }
        return tally;
    }
    for (var chunk = 0u; chunk < params.chunks; chunk++) {
        let listed = scratch[drawn_at(row, chunk)].x;
        for (var i = first_of(lane); i < listed; i += STEP) {
            let key = scratch[list_at(row, chunk) + i].x;
            if (key - s.low <= width) {
                tally.counts = count_key(tally.counts, at_borders, key);
                if (s.phase == BY_MASS) {
                    let mass = exp(min(most - number(key), reach) * -inverse);
                    tally.masses = add_mass(tally.masses, at_borders, key, mass);
                }
            }
        }
    }
    return tally;
}

// The best score of what a search has left.
fn best_left(row: u32, lane: u32, s: Search) -> vec2<u32> {
    let draw = draw_of(row, s.most, s.low);
    var best = vec2<u32>(0u, NONE);
    if (s.whole) {
        for (var at4 = first_of(lane); at4 < params.stride4; at4 += STEP) {
            best = best_score(best, draw, keys_at(row, at4), at4);
        }
        return best;
    }
    for (var chunk = 0u; chunk < params.chunks; chunk++) {
        let listed = scratch[drawn_at(row, chunk)].x;
        for (var i = first_of(lane); i < listed; i += STEP) {
            let found = scratch[list_at(row, chunk) + i];
            if (found.x >= s.low) {
                let own = vec4<u32>(0u, 1u, 2u, 3u) == vec4<u32>(found.y % 4u);
                let key = select(vec4<u32>(), vec4<u32>(found.x), own);
                best = greater(best, best_score(vec2<u32>(0u, NONE), draw, key, found.y / 4u));
            }
        }
    }
    return best;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = task_of(group.x, lane);
    if (row >= params.samples) {
        return;
    }
    let greatest = row_greatest(row, lane);
    var token = NONE;
    if (rows[row].levels > 0u) {
        var s = begin_search(row, lane, greatest.x);
        // As many as there may be to all rows of the kind: who has found the border must not leave the others' barriers.
        for (var level = 0u; level < rows[row].levels; level++) {
            // Made once a level, so that they are not rounded in two ways.
            let at_borders = all_borders(s);
            let tally = count_level(row, lane, s, at_borders);
            let counts = share_counts(lane, tally.counts);
            var masses = Masses();
            if (rows[row].top_p < 1.0) {
                masses = share_masses(lane, tally.masses);
            }
            s = narrow(row, s, at_borders, counts, masses);
        }
        token = share_greatest(lane, best_left(row, lane, s)).y;
    } else {
        token = token_of_chunks(row, lane, greatest);
    }
    finish(row, lane, greatest, token);
}
