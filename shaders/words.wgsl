// How kernels for software adapters read what is eight, four or two words wide, and write four: as words.

struct Words8 {
    low: Words4,
    high: Words4,
}

alias Words4 = vec4<u32>;
alias Words2 = vec2<u32>;

fn words4(x: Words4) -> vec4<u32> {
    return x;
}

fn to_words4(x: vec4<u32>) -> Words4 {
    return x;
}

fn words2(x: Words2) -> vec2<u32> {
    return x;
}

fn low_words(x: Words8) -> vec4<u32> {
    return x.low;
}

fn high_words(x: Words8) -> vec4<u32> {
    return x.high;
}
