//! An entry that is larger than a message, in pieces.
//!
//! The first byte of a value tells what follows it:
//! - 1: the whole entry, sealed;
//! - 2: the first of several pieces: their number (4 bytes), the length of the whole (8) and its CRC-32 (4), then bytes;
//! - 3: a later piece: the same CRC-32 (4), then bytes. Its key is that of the entry with `/` and its number.
//!
//! Numbers are little-endian. All pieces of an entry are put in one transaction, and those that a smaller one no longer
//! needs are taken away in it.

const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const LATER: u8 = 3;
/// Bytes before the content of a first piece, the longest of the three.
pub(super) const LONGEST_HEAD: usize = 17;

/// The values of an entry, of at most this many bytes each: the first goes under its key, the others under the keys of its
/// pieces. `most` is more than [`LONGEST_HEAD`].
pub(super) fn cut(sealed: &[u8], most: usize) -> Vec<Vec<u8>> {
    let with_head = |head: &[&[u8]], content: &[u8]| {
        let mut value = head.concat();
        value.extend_from_slice(content);
        value
    };
    if sealed.len() < most {
        return vec![with_head(&[&[WHOLE]], sealed)];
    }
    let room = most.saturating_sub(LONGEST_HEAD).max(1);
    let sum = crc32fast::hash(sealed).to_le_bytes();
    let count = (sealed.len().div_ceil(room) as u32).to_le_bytes();
    let length = (sealed.len() as u64).to_le_bytes();
    let pieces = sealed.chunks(room).enumerate();
    pieces
        .map(|(number, piece)| match number {
            0 => with_head(&[&[FIRST], &count, &length, &sum], piece),
            _ => with_head(&[&[LATER], &sum], piece),
        })
        .collect()
}

/// Puts an entry together again: how many pieces it has, and its bytes. `later` has the piece of a number. The error says
/// what is wrong.
pub(super) fn join<'a>(
    first: &[u8],
    mut later: impl FnMut(u32) -> Option<&'a [u8]>,
) -> Result<(u32, Vec<u8>), String> {
    let (kind, content) = first.split_first().ok_or("it is empty")?;
    if *kind == WHOLE {
        return Ok((1, content.to_vec()));
    }
    if *kind != FIRST {
        return Err(format!("it begins with byte {kind}, which is unknown"));
    }
    let short = "its head is cut off";
    let (count, content) = content.split_first_chunk().ok_or(short)?;
    let (length, content) = content.split_first_chunk().ok_or(short)?;
    let (sum, content) = content.split_first_chunk::<4>().ok_or(short)?;
    let (count, length) = (u32::from_le_bytes(*count), u64::from_le_bytes(*length));
    let mut whole = content.to_vec();
    for number in 1..count {
        let piece = later(number);
        let piece = piece.ok_or_else(|| format!("piece {number} of {count} is missing"))?;
        let content = piece.strip_prefix(&[LATER]);
        let content = content.and_then(|content| content.strip_prefix(sum.as_slice()));
        let content =
            content.ok_or_else(|| format!("piece {number} of {count} is of another entry"))?;
        whole.extend_from_slice(content);
        if whole.len() as u64 > length {
            break;
        }
    }
    if whole.len() as u64 != length {
        let found = whole.len();
        return Err(format!("it has {found} bytes instead of {length}"));
    }
    if crc32fast::hash(&whole).to_le_bytes() != *sum {
        return Err("its checksum is wrong".into());
    }
    Ok((count, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(values: &[Vec<u8>]) -> Result<(u32, Vec<u8>), String> {
        join(&values[0], |number| {
            values.get(number as usize).map(Vec::as_slice)
        })
    }

    #[test]
    fn an_entry_comes_together_whatever_its_length() {
        for most in [18, 19, 40, 1000] {
            for length in [0, 1, 2, 17, 18, 39, 40, 41, 999, 1000, 1001, 5000] {
                let sealed: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
                let values = cut(&sealed, most);
                assert!(values.iter().all(|value| value.len() <= most));
                let (count, whole) = joined(&values).unwrap();
                assert_eq!((count as usize, whole), (values.len(), sealed));
            }
        }
    }

    #[test]
    fn what_is_missing_or_of_another_entry_is_told() {
        let values = cut(&[7; 100], 40);
        let other = cut(&[8; 100], 40);
        assert_eq!(values.len(), 5);
        let mut lacks = values.clone();
        lacks.pop();
        assert!(
            joined(&lacks)
                .unwrap_err()
                .contains("piece 4 of 5 is missing")
        );
        let mut mixed = values.clone();
        mixed[2] = other[2].clone();
        assert!(
            joined(&mixed)
                .unwrap_err()
                .contains("piece 2 of 5 is of another entry")
        );
        for damaged in [&b""[..], b"\x09abc", b"\x02abc"] {
            assert!(join(damaged, |_| None).is_err());
        }
        // A length that is a lie costs no memory.
        let mut liar = values;
        liar[0][1..5].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(joined(&liar).is_err());
    }
}
