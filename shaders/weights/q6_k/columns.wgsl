// What a lane of matmul_columns.wgsl reads of a unit: 32 elements of each of its four columns, stored as GGUF's q6_K, kinds apart.

const UNITS: u32 = 1u;       // of a group of 32 elements
const OCTETS: u32 = 4u;      // of elements in a unit
const FACTORS: u32 = 2u;     // parts of a unit with a factor of their own
const TOTALS: bool = false;  // whether something is taken from each weight

@group(0) @binding(5) var<storage, read> scales: array<vec2<u32>>; // two i8 for each of four columns
@group(0) @binding(6) var<storage, read> supers: array<vec4<u32>>; // d of four columns, f16
@group(0) @binding(7) var<storage, read> high: array<vec2<u32>>;   // the upper two bits of q

struct Unit {
    chunks: array<vec4<u32>, 4>, // of the four columns: the low four bits of q
    high: array<vec2<u32>, 4>,
    scales: vec2<u32>,
    supers: vec4<u32>,
}

struct Octet {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn load_unit(tile: u32, u: u32, tile_lane: u32) -> Unit {
    let at = tile * params.groups + u;
    var unit: Unit;
    for (var i = 0u; i < 4u; i++) {
        unit.chunks[i] = values[(at * 4u + i) * 8u + tile_lane];
        unit.high[i] = high[(at * 4u + i) * 8u + tile_lane];
    }
    unit.scales = scales[at * 8u + tile_lane];
    unit.supers = supers[at / 8u * 8u + tile_lane];
    return unit;
}

// Four q, less 32: they get there as the lowest bits of 2^23, without a conversion, of which GPUs make a quarter of what they add.
fn from_bits(low: u32, upper: u32) -> vec4<f32> {
    let q = ((vec4<u32>(low) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u))
        | (((vec4<u32>(upper) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u)) << vec4<u32>(4u));
    return bitcast<vec4<f32>>(q | vec4<u32>(0x4b000000u)) - vec4<f32>(8388640.0);
}

fn octet_of(unit: ptr<function, Unit>, column: u32, octet: u32) -> Octet {
    let word = (*unit).chunks[column][octet];
    let upper = (*unit).high[column][octet / 2u] >> (octet % 2u * 16u);
    return Octet(from_bits(word, upper), from_bits(word >> 16u, upper >> 8u));
}

fn factors_of(unit: ptr<function, Unit>, half: u32) -> vec4<f32> {
    let words = vec4<u32>((*unit).scales.x << 16u, (*unit).scales.x, (*unit).scales.y << 16u, (*unit).scales.y);
    let s = bitcast<vec4<i32>>(words << vec4<u32>(8u - half * 8u)) >> vec4<u32>(24u);
    let d = (*unit).supers;
    let blocks = vec4<f32>(unpack2x16float(d.x).x, unpack2x16float(d.y).x, unpack2x16float(d.z).x, unpack2x16float(d.w).x);
    return vec4<f32>(s) * blocks;
}

fn minima_of(unit: ptr<function, Unit>) -> vec4<f32> {
    return vec4<f32>();
}
