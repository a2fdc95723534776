
// Plain arithmetic in place of what cooperative.wgsl says: for tests on devices without cooperative matrices. Lane l of SUBGROUP holds
// elements l, l + SUBGROUP, and so on of a matrix of sums; what is multiplied stays in workgroup memory until it is.

alias Quad = vec2<u32>; // four f16

const OWN: u32 = 256u / SUBGROUP;

struct Input {
    at: u32,
}

struct Weight {
    at: u32,
}

struct Sum {
    own: array<f32, OWN>,
}

fn narrow(x: vec4<f32>) -> Quad {
    return Quad(pack2x16float(x.xy), pack2x16float(x.zw));
}

fn load_input(at: u32) -> Input {
    return Input(at);
}

fn load_weight(at: u32) -> Weight {
    return Weight(at);
}

fn multiply_add(lane: u32, x: Input, w: Weight, before: Sum) -> Sum {
    var sum = before;
    for (var i = 0u; i < OWN; i++) {
        let element = i * SUBGROUP + lane % SUBGROUP;
        let row = x.at + element / 16u * STRIDE;
        let column = w.at + element % 16u * STRIDE;
        for (var k = 0u; k < 4u; k++) {
            let a = input_tile[row + k];
            let b = weight_tile[column + k];
            let first = unpack2x16float(a.x) * unpack2x16float(b.x);
            let second = unpack2x16float(a.y) * unpack2x16float(b.y);
            sum.own[i] = (((sum.own[i] + first.x) + first.y) + second.x) + second.y;
        }
    }
    return sum;
}

fn add_sums(a: Sum, b: Sum) -> Sum {
    var sum = a;
    for (var i = 0u; i < OWN; i++) {
        sum.own[i] += b.own[i];
    }
    return sum;
}

fn store_sum(lane: u32, sum: Sum, at: u32) {
    for (var i = 0u; i < OWN; i++) {
        let element = i * SUBGROUP + lane % SUBGROUP;
        sums[at + element / 16u * (COLUMNS / 4u) + element % 16u / 4u][element % 4u] = sum.own[i];
    }
}
