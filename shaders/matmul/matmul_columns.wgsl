// Matmul for GPUs. Workgroup: ROWS rows by ACROSS * 4 columns. The units of the width are dealt out to params.parts parts in turn. A
// lane has four columns that lie together, and sums a part by itself; then eights of parts are added up in order, and these in order. So
// the order of a sum depends on the width and the format alone, and no subgroup has a part in it. Weights lie in tiles of 32 columns
// (layout_tiles.wgsl), and the columns.wgsl of a format says what a lane reads of a unit.
//
// SLOTS parts are summed at once, and HELD, a multiple of them, before parts are added up: several rounds where there are more. Sums
// of TOGETHER rows go through workgroup memory at a time.
// A rows_plain.wgsl or rows_routed.wgsl says which rows a tile has, and of which matrix. A columns_normed.wgsl or columns_plain.wgsl says what becomes of the sums before they are stored.
// Grid: (rows / ROWS, columns / (ACROSS * 4)): those that read the same weights run side by side.
//
// The host writes this out (kernels/columns.rs): a line once for each row where it has $R, and matmul_octet.wgsl once for each octet of
// a unit. So no driver, least of all a software one, has to unroll loops over arrays. A row's line loads what it multiplies: where
// loads of all rows came first, an H100 took a fifth longer.

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;

const EIGHT: u32 = 8u;                  // parts that are added up by themselves first
const SUMS: u32 = TOGETHER * ACROSS;    // that go through workgroup memory; LANES are enough for each eight of each

var<workgroup> partial: array<vec4<f32>, HELD * SUMS>; // [HELD, TOGETHER, ACROSS]

// Adds up the products of four elements of four columns and of x, element by element.
fn add(sum: vec4<f32>, w0: vec4<f32>, w1: vec4<f32>, w2: vec4<f32>, w3: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
    let first = fma(vec4<f32>(w0.x, w1.x, w2.x, w3.x), vec4<f32>(x.x), sum);
    let second = fma(vec4<f32>(w0.y, w1.y, w2.y, w3.y), vec4<f32>(x.y), first);
    let third = fma(vec4<f32>(w0.z, w1.z, w2.z, w3.z), vec4<f32>(x.z), second);
    return fma(vec4<f32>(w0.w, w1.w, w2.w, w3.w), vec4<f32>(x.w), third);
}

// Adds up the products of eight elements of four columns and of the input, which has four of them at each of two places.
fn multiply(sum: vec4<f32>, w0: Octet, w1: Octet, w2: Octet, w3: Octet, at: u32, next: u32) -> vec4<f32> {
    let low = add(sum, w0.low, w1.low, w2.low, w3.low, input[at]);
    return add(low, w0.high, w1.high, w2.high, w3.high, input[next]);
}

// The sum of those eight elements of the input.
fn total(at: u32, next: u32) -> f32 {
    let pairs = input[at] + input[next];
    return (pairs.x + pairs.y) + (pairs.z + pairs.w);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let rows = end_row(id.x);
    let units = params.groups * UNITS;
    let first = first_row(id.x);
    if (ROUTED && first >= rows) {
        return;
    }
    let across = lane % ACROSS;
    let slot = lane / ACROSS;
    // A workgroup that hangs over the last tile reads that again and does not store it.
    let place = min(id.y * ACROSS + across, (params.columns4 + 7u) / 8u * 8u - 1u);
    let tile = tiles_before(id.x) + place / 8u;
    let tile_lane = place % 8u;
    // In a tile of many rows a unit is read while the one before it is multiplied; with fewer there are other lanes to wait for.
    var ahead: Unit;
    if (ROWS > 4u) {
        ahead = load_unit(tile, min(slot, units - 1u), tile_lane);
    }
    // One that hangs over the last row computes that row again and does not store it.
    let start_$R = input_row(id.x, min(first + $Ru, rows - 1u)) * params.width4;
    var whole: array<vec4<f32>, ROWS / TOGETHER>;
    for (var round = 0u; round < params.parts; round += HELD) {
        var sums_$R = vec4<f32>();
        for (var held = slot; held < HELD; held += SLOTS) {
            sums_$R = vec4<f32>();
            // A lane beyond the last part has no units.
            let part = select(units, round + held, round + held < params.parts);
            for (var u = part; u < units; u += params.parts) {
                var unit = ahead;
                if (ROWS > 4u) {
                    // After the last of a part the lane goes on with the first of its next one.
                    let then = select(part + SLOTS, u + params.parts, u + params.parts < units);
                    ahead = load_unit(tile, min(then, units - 1u), tile_lane);
                } else {
                    unit = load_unit(tile, u, tile_lane);
                }
                // Where a unit has no factors, they are added to the sums at once.
                var part_$R = select(vec4<f32>(), sums_$R, FACTORS == 0u);
                var total_$R = 0.0;
$OCTETS
                if (TOTALS) {
                    let minima = minima_of(&unit);
                    sums_$R = fma(minima, vec4<f32>(-total_$R), sums_$R);
                }
                if (FACTORS == 0u) {
                    sums_$R = part_$R;
                }
            }
            if ($Ru < TOGETHER) { partial[(held * TOGETHER + $Ru) * ACROSS + across] = sums_$R; }
        }
        for (var c = 0u; c < ROWS / TOGETHER; c++) {
            if (c > 0u && c == $Ru / TOGETHER) { partial[(slot * TOGETHER + $Ru % TOGETHER) * ACROSS + across] = sums_$R; }
            workgroupBarrier();
            // Eights of parts by a lane each, in place of their first; then the eights by one.
            let begin = lane / SUMS * EIGHT;
            if (begin < HELD) {
                var eight = vec4<f32>();
                for (var p = begin; p < min(begin + EIGHT, min(params.parts - round, HELD)); p++) {
                    eight += partial[p * SUMS + lane % SUMS];
                }
                partial[begin * SUMS + lane % SUMS] = eight;
            }
            workgroupBarrier();
            if (lane < SUMS) {
                for (var p = 0u; p < HELD; p += EIGHT) {
                    whole[c] += partial[p * SUMS + lane];
                }
            }
            workgroupBarrier();
        }
    }
    prepare_norms(first, rows, lane);
    let column4 = id.y * ACROSS + across;
    if (lane < SUMS && column4 < params.columns4) {
        for (var c = 0u; c < ROWS / TOGETHER; c++) {
            let row = c * TOGETHER + slot;
            if (first + row < rows) {
                store(output_row(id.x, first + row), column4, scaled(whole[c], row));
            }
        }
    }
}
