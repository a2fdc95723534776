//! Payment card numbers.

/// Whether these digits are a card number: the Luhn check digit (ISO/IEC 7812) and a known issuer with a length it uses;
/// or, where the text speaks of a card, any issuer.
pub(super) fn is_card(digits: &[u8], said: impl FnOnce() -> bool) -> bool {
    (12..=19).contains(&digits.len()) && luhn(digits) && (is_issued(digits) || said())
}

/// Issuer ranges and lengths as the schemes publish them: Visa, Mastercard, American Express, Diners Club, Discover,
/// UnionPay, JCB, Maestro, Mir, RuPay, Troy.
fn is_issued(digits: &[u8]) -> bool {
    let prefix = digits[..6]
        .iter()
        .fold(0u32, |number, digit| number * 10 + u32::from(digit - b'0'));
    let length = digits.len();
    match prefix {
        400_000..=499_999 => matches!(length, 13 | 16 | 19),
        510_000..=559_999 | 222_100..=272_099 | 979_200..=979_299 => length == 16,
        340_000..=349_999 | 370_000..=379_999 => length == 15,
        300_000..=305_999 | 309_500..=309_599 | 360_000..=369_999 | 380_000..=399_999 => {
            (14..=19).contains(&length)
        }
        352_800..=358_999 => (16..=19).contains(&length),
        213_100..=213_199 | 180_000..=180_099 => length == 15,
        220_000..=220_499 => (16..=19).contains(&length),
        810_000..=829_999 => length == 16,
        500_000..=509_999 | 560_000..=699_999 => true,
        _ => false,
    }
}

/// The check of ISO/IEC 7812-1: every second digit from the right doubled, the sum of all digits a multiple of ten.
fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let digit = u32::from(digit - b'0');
            match (index % 2, digit * 2) {
                (0, _) => digit,
                (_, double) if double > 9 => double - 9,
                (_, double) => double,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}
