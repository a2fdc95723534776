//! The records: a key of 8 bytes and a value of 192.

use std::io::Write as _;

const VALUE: usize = 192;
/// Of so many records the filter drops one.
pub(crate) const DROPPED: u64 = 10;
/// Where the number of a record stands, and the time at which it was due.
const NUMBER: std::ops::Range<usize> = 18..28;
const TIME: std::ops::Range<usize> = 36..55;

/// Whether the filter keeps the record.
pub(crate) fn is_kept(number: u64) -> bool {
    !number.is_multiple_of(DROPPED)
}

/// Writes a record. The filters look at byte 10 of the value: where it is odd they drop the record.
pub(crate) fn write(number: u64, due: u64, key: &mut Vec<u8>, value: &mut Vec<u8>) {
    key.clear();
    write!(key, "k{:07}", number % 1000).unwrap();
    value.clear();
    let drop = u8::from(!is_kept(number));
    write!(
        value,
        "{{\"drops\":\"{drop}\",\"n\":\"{number:010}\",\"at\":\"{due:019}\",\"text\":\""
    )
    .unwrap();
    let phrases = ["my parcel ", "is late ", "again and ", "nobody answers "];
    let mut turn = number as usize;
    while value.len() < VALUE - 2 {
        value.extend_from_slice(phrases[(turn + value.len()) % 4].as_bytes());
        turn = turn.wrapping_mul(31).wrapping_add(7);
    }
    value.truncate(VALUE - 2);
    value.extend_from_slice(b"\"}");
}

fn digits(value: &[u8], place: std::ops::Range<usize>) -> u64 {
    let text = std::str::from_utf8(&value[place]).expect("a record of this benchmark");
    text.parse().expect("a record of this benchmark")
}

pub(crate) fn number(value: &[u8]) -> u64 {
    digits(value, NUMBER)
}

pub(crate) fn due(value: &[u8]) -> u64 {
    digits(value, TIME)
}
