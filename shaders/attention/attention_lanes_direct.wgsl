// What the 8 lanes of a workgroup of the software attention make of what each of them has, told through workgroup memory.

var<workgroup> told: array<vec4<f32>, 72>;

fn most_of_lanes(lane: u32, x: f32) -> f32 {
    told[lane] = vec4<f32>(x);
    workgroupBarrier();
    var most = told[0].x;
    for (var other = 1u; other < 8u; other++) {
        most = max(most, told[other].x);
    }
    workgroupBarrier();
    return most;
}

// Of nine that all lanes have: the sum of the one with the lane's number, and that of the last.
fn add_lanes(lane: u32, x: array<vec4<f32>, 9>) -> array<vec4<f32>, 2> {
    told[lane] = x[0];
    told[8u + lane] = x[1];
    told[16u + lane] = x[2];
    told[24u + lane] = x[3];
    told[32u + lane] = x[4];
    told[40u + lane] = x[5];
    told[48u + lane] = x[6];
    told[56u + lane] = x[7];
    told[64u + lane] = x[8];
    workgroupBarrier();
    var own = told[lane * 8u];
    var last = told[64];
    for (var other = 1u; other < 8u; other++) {
        own += told[lane * 8u + other];
        last += told[64u + other];
    }
    workgroupBarrier();
    return array<vec4<f32>, 2>(own, last);
}
