//! The header of a GGUF file: keys, and where each tensor lies.
//!
//! Format: `ggml/docs/gguf.md`, versions 2 and 3, little-endian.

use std::collections::BTreeMap;
use std::ops::Range;

use super::GgufError;
use super::cursor::Cursor;
use super::kinds::Kind;

/// Most bytes of a header: numbers of one byte become eight in memory. A vocabulary of 262,144 tokens with its merges has
/// about 16 MiB.
const LONGEST: usize = 128 << 20;

/// Most keys.
const MOST_KEYS: u64 = 1 << 16;

/// Most tensors.
pub(super) const MOST_TENSORS: u64 = 1 << 17;

/// Most elements of an array; the longest that are in use hold a vocabulary's merges.
const MOST_ELEMENTS: u64 = 1 << 24;

/// Most dimensions of a tensor (`GGML_MAX_DIMS`).
const MOST_DIMENSIONS: u32 = 4;

/// Bytes of the shortest key with its value: a length, a type, a byte.
const LEAST_KEY: u64 = 8 + 4 + 1;

/// Bytes of the shortest tensor entry: a length, a count of dimensions, a type, an offset.
const LEAST_TENSOR: u64 = 8 + 4 + 4 + 8;

/// A value of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Flag(bool),
    Text(String),
    Numbers(Vec<f64>),
    Flags(Vec<bool>),
    Texts(Vec<String>),
}

impl Value {
    /// Whether another is the same, bit for bit.
    pub(super) fn is(&self, other: &Value) -> bool {
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits();
        match (self, other) {
            (Value::Float(a), Value::Float(b)) => same(*a, *b),
            (Value::Numbers(a), Value::Numbers(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(*a, *b))
            }
            (a, b) => a == b,
        }
    }
}

/// The header of a file.
pub(crate) struct Header {
    pub(crate) keys: BTreeMap<String, Value>,
    pub(crate) tensors: BTreeMap<String, Entry>,
}

/// A tensor, and where it lies.
pub(crate) struct Entry {
    /// Elements of a row first.
    pub(crate) shape: Vec<usize>,
    pub(crate) kind: Kind,
    /// In its file; for a type that is not known from its first byte to the end of the file.
    pub(crate) range: Range<usize>,
    /// Which of the model's files it lies in, from 0.
    pub(crate) part: usize,
}

impl Header {
    /// That of a file without keys and tensors.
    pub(super) fn empty() -> Header {
        Header {
            keys: BTreeMap::new(),
            tensors: BTreeMap::new(),
        }
    }

    /// Reads the header of a whole file.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Header, GgufError> {
        let mut cursor = Cursor::new(bytes, LONGEST);
        if cursor.take(MAGIC_NAME)? != *b"GGUF" {
            return Err(GgufError::Magic);
        }
        match cursor.u32("the version")? {
            2 | 3 => {}
            version if matches!(version.swap_bytes(), 1..=3) => return Err(GgufError::BigEndian),
            version => return Err(GgufError::Version { version }),
        }
        let tensor_count = cursor.count("the number of tensors", MOST_TENSORS, LEAST_TENSOR)?;
        let key_count = cursor.count("the number of keys", MOST_KEYS, LEAST_KEY)?;
        let mut keys = BTreeMap::new();
        for _ in 0..key_count {
            let key = cursor.name("the name of a key")?;
            let value = read_value(&mut cursor, &key)?;
            if keys.insert(key.clone(), value).is_some() {
                return Err(GgufError::Twice {
                    what: "key",
                    name: key,
                });
            }
        }
        let mut listed = Vec::with_capacity(tensor_count);
        for _ in 0..tensor_count {
            listed.push(Listed::read(&mut cursor)?);
        }
        let alignment = alignment(&keys)?;
        let data = cursor.at().next_multiple_of(alignment).min(bytes.len());
        let tensors = place(listed, data, bytes.len() - data, alignment)?;
        Ok(Header { keys, tensors })
    }
}

const MAGIC_NAME: &str = "the first letters";

fn alignment(keys: &BTreeMap<String, Value>) -> Result<usize, GgufError> {
    match keys.get("general.alignment") {
        None => Ok(32),
        Some(Value::Unsigned(n)) if n.is_power_of_two() && (8..=65536).contains(n) => {
            Ok(*n as usize)
        }
        Some(other) => Err(GgufError::Alignment {
            alignment: match other {
                Value::Unsigned(n) => n.to_string(),
                other => format!("{other:?}").chars().take(80).collect(),
            },
        }),
    }
}

/// A tensor as the header lists it.
struct Listed {
    name: String,
    shape: Vec<u64>,
    kind: u32,
    offset: u64,
}

impl Listed {
    fn read(cursor: &mut Cursor<'_>) -> Result<Listed, GgufError> {
        let name = cursor.name("the name of a tensor")?;
        let dimensions = cursor.u32(&name)?;
        if dimensions == 0 || dimensions > MOST_DIMENSIONS {
            return Err(GgufError::Shape {
                name,
                shape: Vec::new(),
                limit: format!("of {dimensions} dimensions, must have 1 to {MOST_DIMENSIONS}"),
            });
        }
        let shape = (0..dimensions)
            .map(|_| cursor.u64(&name))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Listed {
            kind: cursor.u32(&name)?,
            offset: cursor.u64(&name)?,
            shape,
            name,
        })
    }

    /// Bytes of the tensor, if its type is known.
    fn bytes(&self) -> Result<Option<u64>, GgufError> {
        let wrong = |limit: &str| GgufError::Shape {
            name: self.name.clone(),
            shape: self.shape.clone(),
            limit: limit.to_owned(),
        };
        let elements = self
            .shape
            .iter()
            .try_fold(1u64, |product, n| product.checked_mul(*n));
        let elements = elements
            .filter(|n| *n <= 1 << 48)
            .ok_or_else(|| wrong("which has more than 2^48 elements"))?;
        if elements == 0 {
            return Err(wrong("which has no elements"));
        }
        let kind = Kind::of(self.kind);
        let Some((block, bytes)) = kind.block() else {
            return Ok(None);
        };
        if !self.shape[0].is_multiple_of(block) {
            return Err(wrong(&format!(
                "whose rows are not whole blocks of {block} elements ({})",
                kind.name()
            )));
        }
        Ok(Some(elements / block * bytes))
    }
}

/// Finds where each tensor lies, and that none lies outside the file or over another.
fn place(
    mut listed: Vec<Listed>,
    data: usize,
    length: usize,
    alignment: usize,
) -> Result<BTreeMap<String, Entry>, GgufError> {
    listed.sort_by_key(|tensor| tensor.offset);
    let mut tensors = BTreeMap::new();
    let mut free = 0;
    for tensor in listed {
        let bytes = tensor.bytes()?;
        let start = tensor.offset;
        let end = start.saturating_add(bytes.unwrap_or(0));
        let problem = if !start.is_multiple_of(alignment as u64) {
            format!("which does not begin at a multiple of the alignment {alignment}")
        } else if end > length as u64 {
            "past its end".to_owned()
        } else if start < free {
            format!("over another that ends at {free}")
        } else {
            let (start, end) = (data + start as usize, data + end as usize);
            let entry = Entry {
                shape: tensor.shape.iter().map(|n| *n as usize).collect(),
                kind: Kind::of(tensor.kind),
                range: start..if bytes.is_some() { end } else { data + length },
                part: 0,
            };
            free = (end - data) as u64;
            if tensors.insert(tensor.name.clone(), entry).is_some() {
                return Err(GgufError::Twice {
                    what: "tensor",
                    name: tensor.name,
                });
            }
            continue;
        };
        return Err(GgufError::Place {
            name: tensor.name,
            start,
            end,
            length: length as u64,
            problem,
        });
    }
    Ok(tensors)
}

/// `enum gguf_type`, then the value.
fn read_value(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, GgufError> {
    let what = format!("key `{key}`");
    let kind = cursor.u32(&what)?;
    match kind {
        7 => Ok(Value::Flag(cursor.take::<1>(&what)? != [0])),
        8 => Ok(Value::Text(cursor.text(&what)?)),
        9 => read_array(cursor, key, &what),
        0 | 2 | 4 | 10 => read_unsigned(cursor, kind, &what).map(Value::Unsigned),
        1 | 3 | 5 | 11 => read_signed(cursor, kind, &what).map(Value::Signed),
        // A number that was written as a decimal and stored in 32 bits is taken for that decimal again.
        6 => {
            let number = f32::from_le_bytes(cursor.take(&what)?);
            Ok(Value::Float(
                number.to_string().parse().unwrap_or(f64::from(number)),
            ))
        }
        12 => read_float(cursor, kind, &what).map(Value::Float),
        _ => Err(GgufError::ValueType {
            key: key.to_owned(),
            kind,
        }),
    }
}

fn read_array(cursor: &mut Cursor<'_>, key: &str, what: &str) -> Result<Value, GgufError> {
    let kind = cursor.u32(what)?;
    let size = match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        8 | 10..=12 => 8,
        _ => {
            return Err(GgufError::ValueType {
                key: key.to_owned(),
                kind,
            });
        }
    };
    let count = cursor.count(what, MOST_ELEMENTS, size)?;
    let all = 0..count;
    Ok(match kind {
        7 => Value::Flags(
            all.map(|_| Ok(cursor.take::<1>(what)? != [0]))
                .collect::<Result<_, _>>()?,
        ),
        8 => Value::Texts(all.map(|_| cursor.text(what)).collect::<Result<_, _>>()?),
        0 | 2 | 4 | 10 => Value::Numbers(
            all.map(|_| Ok(read_unsigned(cursor, kind, what)? as f64))
                .collect::<Result<_, _>>()?,
        ),
        1 | 3 | 5 | 11 => Value::Numbers(
            all.map(|_| Ok(read_signed(cursor, kind, what)? as f64))
                .collect::<Result<_, _>>()?,
        ),
        _ => Value::Numbers(
            all.map(|_| read_float(cursor, kind, what))
                .collect::<Result<_, _>>()?,
        ),
    })
}

fn read_unsigned(cursor: &mut Cursor<'_>, kind: u32, what: &str) -> Result<u64, GgufError> {
    Ok(match kind {
        0 => u64::from(cursor.take::<1>(what)?[0]),
        2 => u64::from(u16::from_le_bytes(cursor.take(what)?)),
        4 => u64::from(cursor.u32(what)?),
        _ => cursor.u64(what)?,
    })
}

fn read_signed(cursor: &mut Cursor<'_>, kind: u32, what: &str) -> Result<i64, GgufError> {
    Ok(match kind {
        1 => i64::from(cursor.take::<1>(what)?[0] as i8),
        3 => i64::from(i16::from_le_bytes(cursor.take(what)?)),
        5 => i64::from(i32::from_le_bytes(cursor.take(what)?)),
        _ => i64::from_le_bytes(cursor.take(what)?),
    })
}

fn read_float(cursor: &mut Cursor<'_>, kind: u32, what: &str) -> Result<f64, GgufError> {
    Ok(match kind {
        6 => f64::from(f32::from_le_bytes(cursor.take(what)?)),
        _ => f64::from_le_bytes(cursor.take(what)?),
    })
}
