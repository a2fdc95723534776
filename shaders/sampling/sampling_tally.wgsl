// Sixteen counts and sixteen masses, and how the lanes of a workgroup sum them up: through few barriers, always in the same
// order.

struct Counts { a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32> }
struct Masses { a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32> }

// Into so many parts the lanes are cut whose sums are made at a time.
const PARTS: u32 = max(LANES / 16u, 1u);

// A column of lanes for each of the sixteen; one more than there are, so that neighbours are in different banks.
var<workgroup> shared_columns: array<u32, 16 * (LANES + 1)>;
var<workgroup> shared_parts: array<vec4<u32>, 4 * PARTS>;

fn put_column(lane: u32, four: u32, value: vec4<u32>) {
    let at = four * 4u * (LANES + 1u) + lane;
    shared_columns[at] = value.x;
    shared_columns[at + LANES + 1u] = value.y;
    shared_columns[at + 2u * (LANES + 1u)] = value.z;
    shared_columns[at + 3u * (LANES + 1u)] = value.w;
}

fn put_columns(lane: u32, value: Counts) {
    workgroupBarrier();
    put_column(lane, 0u, value.a);
    put_column(lane, 1u, value.b);
    put_column(lane, 2u, value.c);
    put_column(lane, 3u, value.d);
    workgroupBarrier();
}

fn share_counts(lane: u32, value: Counts) -> Counts {
    put_columns(lane, value);
    for (var four = lane; four < 4u * PARTS; four += LANES) {
        let first = four % 4u * 4u * (LANES + 1u) + four / 4u * (LANES / PARTS);
        var sum = vec4<u32>();
        for (var at = first; at < first + LANES / PARTS; at++) {
            sum += vec4<u32>(
                shared_columns[at],
                shared_columns[at + LANES + 1u],
                shared_columns[at + 2u * (LANES + 1u)],
                shared_columns[at + 3u * (LANES + 1u)],
            );
        }
        shared_parts[four] = sum;
    }
    workgroupBarrier();
    var counts = Counts();
    for (var part = 0u; part < PARTS; part++) {
        counts.a += shared_parts[part * 4u];
        counts.b += shared_parts[part * 4u + 1u];
        counts.c += shared_parts[part * 4u + 2u];
        counts.d += shared_parts[part * 4u + 3u];
    }
    return counts;
}

fn share_masses(lane: u32, value: Masses) -> Masses {
    put_columns(lane, Counts(
        bitcast<vec4<u32>>(value.a),
        bitcast<vec4<u32>>(value.b),
        bitcast<vec4<u32>>(value.c),
        bitcast<vec4<u32>>(value.d),
    ));
    for (var four = lane; four < 4u * PARTS; four += LANES) {
        let first = four % 4u * 4u * (LANES + 1u) + four / 4u * (LANES / PARTS);
        var sum = vec4<f32>();
        for (var at = first; at < first + LANES / PARTS; at++) {
            sum += bitcast<vec4<f32>>(vec4<u32>(
                shared_columns[at],
                shared_columns[at + LANES + 1u],
                shared_columns[at + 2u * (LANES + 1u)],
                shared_columns[at + 3u * (LANES + 1u)],
            ));
        }
        shared_parts[four] = bitcast<vec4<u32>>(sum);
    }
    workgroupBarrier();
    var masses = Masses();
    for (var part = 0u; part < PARTS; part++) {
        masses.a += bitcast<vec4<f32>>(shared_parts[part * 4u]);
        masses.b += bitcast<vec4<f32>>(shared_parts[part * 4u + 1u]);
        masses.c += bitcast<vec4<f32>>(shared_parts[part * 4u + 2u]);
        masses.d += bitcast<vec4<f32>>(shared_parts[part * 4u + 3u]);
    }
    return masses;
}
