//! Why a GGUF header was not accepted, or why parts do not belong together.

use std::path::PathBuf;

/// Why a GGUF header was not accepted. The caller knows which file it is of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file does not begin as GGUF files do.
    #[error("it does not begin with the letters GGUF")]
    Magic,
    /// A version that is not read.
    #[error("its version is {version}, supported: 2, 3")]
    Version {
        /// The version.
        version: u32,
    },
    /// Every number is stored the other way round.
    #[error("it is big-endian, supported: little-endian")]
    BigEndian,
    /// The file ends too early.
    #[error("it ends within {what} (at byte {at}, {needed} bytes are needed)")]
    CutShort {
        /// What was being read.
        what: String,
        /// Where, bytes from the beginning.
        at: usize,
        /// Bytes that are needed from there.
        needed: u64,
    },
    /// The header is longer than any model's.
    #[error("the header reaches with {what} to byte {end}, must end by byte {limit}")]
    LongHeader {
        /// What was being read.
        what: String,
        /// Where it ends at the earliest, bytes from the beginning.
        end: u64,
        /// Most bytes of a header.
        limit: u64,
    },
    /// A count or length above its limit.
    #[error("{what} is {count}, must be at most {limit}")]
    TooMany {
        /// Of what.
        what: String,
        /// The count.
        count: u64,
        /// Its limit.
        limit: u64,
    },
    /// A text is not UTF-8.
    #[error("{what} is not UTF-8")]
    NotUtf8 {
        /// The text.
        what: String,
    },
    /// A name stands there twice.
    #[error("{what} `{name}` stands there twice")]
    Twice {
        /// A key or a tensor.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A key has a type that there is not, or that is not read.
    #[error(
        "key `{key}` has the value type {kind}, supported: 0 to 12, and arrays of all but arrays"
    )]
    ValueType {
        /// The key.
        key: String,
        /// The type's number.
        kind: u32,
    },
    /// The alignment is no power of two, or too large.
    #[error("`general.alignment` is {alignment}, must be a power of two from 8 to 65536")]
    Alignment {
        /// The alignment.
        alignment: String,
    },
    /// A tensor's shape cannot be.
    #[error("tensor `{name}` has the shape {shape:?}, {limit}")]
    Shape {
        /// The tensor.
        name: String,
        /// Elements of a row first.
        shape: Vec<u64>,
        /// What is wrong.
        limit: String,
    },
    /// A tensor lies outside the file, or over another.
    #[error(
        "tensor `{name}` lies at bytes {start} to {end} of the {length} bytes of data, {problem}"
    )]
    Place {
        /// The tensor.
        name: String,
        /// Its first byte, from the beginning of the data.
        start: u64,
        /// The byte after its last.
        end: u64,
        /// Bytes of data in the file.
        length: u64,
        /// What is wrong.
        problem: String,
    },
}

/// Why a file is not the part of a model that it should be. The caller knows which file it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// Its name does not say which part it is.
    #[error(
        "it is part {number} of {count}, so its name must end in {ending}, as the others are found by theirs: give it that \
         name back, or join the parts with llama-gguf-split --merge"
    )]
    Name {
        /// The part, from 1.
        number: u64,
        /// Parts of the model.
        count: u64,
        /// How its name must end.
        ending: String,
    },
    /// It is a model by itself.
    #[error(
        "it has the name of part {number} of {count}, but it is no part (it has no key `split.count`): put the part of that \
         name in its place"
    )]
    Whole {
        /// The part that it should be, from 1.
        number: u64,
        /// Parts of the model.
        count: u64,
    },
    /// It is of a model in more or fewer parts.
    #[error("it is of a model in {found} parts, not {count}: fetch all parts of one model")]
    Count {
        /// Parts by its own key.
        found: u64,
        /// Parts by its name.
        count: u64,
    },
    /// It is another part than its name says.
    #[error(
        "it is part {found} (by its key `split.no`) under the name of part {number}: fetch part {number} again"
    )]
    Number {
        /// The part by its own key, from 1.
        found: u64,
        /// The part by its name, from 1.
        number: u64,
    },
    /// A key is not what it is in the first part.
    #[error("its key `{key}` is not that of {}: fetch all parts of one model", first.display())]
    Key {
        /// The key.
        key: String,
        /// The first part.
        first: PathBuf,
    },
    /// A tensor is in another part, too.
    #[error("its tensor `{name}` is in {}, too: fetch all parts of one model", other.display())]
    Tensor {
        /// The tensor.
        name: String,
        /// The part that has it already.
        other: PathBuf,
    },
    /// All parts together have too few or too many tensors.
    #[error(
        "its key `split.tensors.count` is {expected}, but the {count} parts hold {found} tensors: fetch all parts of one model"
    )]
    Tensors {
        /// Parts of the model.
        count: u64,
        /// Tensors in them.
        found: u64,
        /// Tensors that there must be.
        expected: u64,
    },
}
