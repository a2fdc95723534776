// The same on llvmpipe, as integers of 64 bits: it reads a buffer lane by lane and component by component, so that half as many
// components take two thirds of the time.

alias Words8 = vec4<u64>;
alias Words4 = vec2<u64>;
alias Words2 = u64;

fn words4(x: Words4) -> vec4<u32> {
    return vec4<u32>(u32(x.x), u32(x.x >> 32u), u32(x.y), u32(x.y >> 32u));
}

fn to_words4(x: vec4<u32>) -> Words4 {
    return vec2<u64>(u64(x.x) | u64(x.y) << 32u, u64(x.z) | u64(x.w) << 32u);
}

fn words2(x: Words2) -> vec2<u32> {
    return vec2<u32>(u32(x), u32(x >> 32u));
}

fn low_words(x: Words8) -> vec4<u32> {
    return words4(x.xy);
}

fn high_words(x: Words8) -> vec4<u32> {
    return words4(x.zw);
}
