// What a lane of matmul_columns.wgsl reads of a unit: 32 elements of each of its four columns, stored as i8, and their scales.

const UNITS: u32 = 1u;       // of a group of 32 elements
const OCTETS: u32 = 4u;      // of elements in a unit
const FACTORS: u32 = 1u;     // parts of a unit with a factor of their own
const TOTALS: bool = false;  // whether something is taken from each weight

@group(0) @binding(5) var<storage, read> scales: array<vec2<u32>>; // four f16

struct Unit {
    chunks: array<vec4<u32>, 8>, // [4 columns, 2 chunks]
    scales: vec2<u32>,
}

struct Octet {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn load_unit(tile: u32, u: u32, tile_lane: u32) -> Unit {
    let at = tile * params.groups + u;
    var unit: Unit;
    for (var i = 0u; i < 8u; i++) {
        unit.chunks[i] = values[(at * 8u + i) * 8u + tile_lane];
    }
    unit.scales = scales[at * 8u + tile_lane];
    return unit;
}

// Four i8 get there as the lowest bits of 2^23, without a conversion, of which GPUs make a quarter of what they add.
fn from_bytes(word: u32) -> vec4<f32> {
    let bytes = (vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
    return bitcast<vec4<f32>>(bytes ^ vec4<u32>(0x4b000080u)) - vec4<f32>(8388736.0);
}

fn octet_of(unit: ptr<function, Unit>, column: u32, octet: u32) -> Octet {
    let chunk = (*unit).chunks[column * 2u + octet / 2u];
    let words = select(chunk.xy, chunk.zw, octet % 2u == 1u);
    return Octet(from_bytes(words.x), from_bytes(words.y));
}

fn factors_of(unit: ptr<function, Unit>, half: u32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float((*unit).scales.x), unpack2x16float((*unit).scales.y));
}

fn minima_of(unit: ptr<function, Unit>) -> vec4<f32> {
    return vec4<f32>();
}
