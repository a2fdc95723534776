// How kernels for software adapters read what is four or two words wide: as words.

alias Words4 = vec4<u32>;
alias Words2 = vec2<u32>;

fn words4(x: Words4) -> vec4<u32> {
    return x;
}

fn words2(x: Words2) -> vec2<u32> {
    return x;
}
