// Sums and maxima over the lanes of a workgroup, in its memory, for adapters of any kind: eight lanes take an eighth of the values
// each, then every lane takes those eight. The order depends on nothing but the lanes.

struct Place {
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
}

var<workgroup> reduced: array<f32, LANES>;
var<workgroup> reduced_8: array<f32, 8>;

fn workgroup_sum(place: Place, value: f32) -> f32 {
    reduced[place.lane] = value;
    workgroupBarrier();
    if (place.lane < 8u) {
        var sum = 0.0;
        for (var i = 0u; i < LANES; i += 8u) {
            sum += reduced[place.lane + i];
        }
        reduced_8[place.lane] = sum;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < 8u; i++) {
        sum += reduced_8[i];
    }
    return sum;
}

fn workgroup_max(place: Place, value: f32) -> f32 {
    reduced[place.lane] = value;
    workgroupBarrier();
    if (place.lane < 8u) {
        var highest = reduced[place.lane];
        for (var i = 8u; i < LANES; i += 8u) {
            highest = max(highest, reduced[place.lane + i]);
        }
        reduced_8[place.lane] = highest;
    }
    workgroupBarrier();
    var highest = reduced_8[0];
    for (var i = 1u; i < 8u; i++) {
        highest = max(highest, reduced_8[i]);
    }
    return highest;
}

fn workgroup_sum4(place: Place, value: vec4<f32>) -> vec4<f32> {
    let x = workgroup_sum(place, value.x);
    let y = workgroup_sum(place, value.y);
    let z = workgroup_sum(place, value.z);
    return vec4<f32>(x, y, z, workgroup_sum(place, value.w));
}

fn workgroup_max4(place: Place, value: vec4<f32>) -> vec4<f32> {
    let x = workgroup_max(place, value.x);
    let y = workgroup_max(place, value.y);
    let z = workgroup_max(place, value.z);
    return vec4<f32>(x, y, z, workgroup_max(place, value.w));
}
