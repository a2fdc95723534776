// A level of the search: counts and masses of a chunk at sixteen borders. Task: a chunk. Grid: (tasks, rows).

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

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y;
    let chunk = task_of(group.x, lane);
    if (chunk >= params.chunks) {
        return;
    }
    let s = next_search(row, chunk, lane);
    if (chunk == 0u && speaks(lane)) {
        store_search(state_at(row, params.parity), s);
    }
    if (ALONE && s.phase == FOUND) {
        return;
    }
    let at_borders = Counts(borders(s, 0u), borders(s, 4u), borders(s, 8u), borders(s, 12u));
    let first = chunk * params.chunk4 + first_of(lane);
    let end = select(chunk_end(chunk), 0u, s.idle || s.phase == FOUND);
    let low = vec4<u32>(s.low);
    let width = vec4<u32>(s.high - s.low);
    var counts = Counts();
    var masses = Masses();
    if (s.phase == BY_COUNT) {
        for (var at4 = first; at4 < end; at4 += STEP) {
            let found = keys_at(row, at4);
            // What is outside the interval counts nowhere.
            let inside = found - low <= width;
            if (any(inside)) {
                let key = select(vec4<u32>(), found, inside);
                counts = count_key(counts, at_borders, key.x);
                counts = count_key(counts, at_borders, key.y);
                counts = count_key(counts, at_borders, key.z);
                counts = count_key(counts, at_borders, key.w);
            }
        }
    } else {
        let most = vec4<f32>(number(s.most));
        let reach = vec4<f32>(rows[row].reach);
        let inverse = rows[row].inverse;
        for (var at4 = first; at4 < end; at4 += STEP) {
            let found = keys_at(row, at4);
            let inside = found - low <= width;
            if (any(inside)) {
                let key = select(vec4<u32>(), found, inside);
                let mass = exp(min(most - numbers(found), reach) * -inverse);
                counts = count_key(counts, at_borders, key.x);
                counts = count_key(counts, at_borders, key.y);
                counts = count_key(counts, at_borders, key.z);
                counts = count_key(counts, at_borders, key.w);
                masses = add_mass(masses, at_borders, key.x, mass.x);
                masses = add_mass(masses, at_borders, key.y, mass.y);
                masses = add_mass(masses, at_borders, key.z, mass.z);
                masses = add_mass(masses, at_borders, key.w, mass.w);
            }
        }
    }
    masses = share_masses(lane, masses);
    counts = share_counts(lane, counts);
    if (speaks(lane) && s.phase != FOUND) {
        let at = tally_at(row, params.parity, chunk);
        scratch[at] = counts.a;
        scratch[at + 1u] = counts.b;
        scratch[at + 2u] = counts.c;
        scratch[at + 3u] = counts.d;
        if (s.phase == BY_MASS) {
            scratch[at + 4u] = bitcast<vec4<u32>>(masses.a);
            scratch[at + 5u] = bitcast<vec4<u32>>(masses.b);
            scratch[at + 6u] = bitcast<vec4<u32>>(masses.c);
            scratch[at + 7u] = bitcast<vec4<u32>>(masses.d);
        }
    }
}
