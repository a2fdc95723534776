use proptest::prelude::*;
use tidegate_codec::{Cutter, PREVIEW, Piece, Rule};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Cut {
    Whole(u64, Vec<u8>),
    TooLong(u64, Vec<u8>, u64),
    Unclosed(u64, Vec<u8>, u64),
}

fn owned(piece: Piece<'_>) -> Cut {
    match piece {
        Piece::Whole { offset, bytes } => Cut::Whole(offset, bytes.to_vec()),
        Piece::TooLong {
            offset,
            preview,
            length,
        } => Cut::TooLong(offset, preview, length),
        Piece::Unclosed {
            offset,
            preview,
            length,
        } => Cut::Unclosed(offset, preview, length),
    }
}

/// Cuts the input as it comes in reads of these sizes, over and over.
fn cut_in_reads(
    rule: Rule,
    max_record: usize,
    input: &[u8],
    reads: &[usize],
    from: u64,
) -> Vec<Cut> {
    let mut cutter = Cutter::new(rule, max_record, from);
    let mut rest = &input[from as usize..];
    let mut reads = reads.iter().cycle();
    let mut cuts = Vec::new();
    loop {
        while let Some(piece) = cutter.cut(rest.is_empty()) {
            cuts.push(owned(piece));
        }
        if rest.is_empty() {
            assert_eq!(cutter.position(), input.len() as u64);
            return cuts;
        }
        let count = (*reads.next().unwrap()).min(rest.len());
        cutter.space()[..count].copy_from_slice(&rest[..count]);
        cutter.filled(count);
        rest = &rest[count..];
    }
}

/// The rule for lines, said in the simplest way.
fn model(max_record: usize, input: &[u8]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut offset = 0u64;
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        cuts.push(if content.len() > max_record {
            let preview = content[..content.len().min(PREVIEW)].to_vec();
            Cut::TooLong(offset, preview, content.len() as u64)
        } else {
            Cut::Whole(offset, content.to_vec())
        });
        offset += line.len() as u64;
    }
    cuts
}

/// The rule for rows, said in the simplest way: every row is looked at anew.
fn model_of_rows(max_record: usize, input: &[u8]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut begin = 0;
    while begin < input.len() {
        let (mut quoted, mut field_start, mut after_quote) = (false, true, false);
        let mut end = None;
        for (at, byte) in input.iter().enumerate().skip(begin) {
            if quoted {
                (quoted, after_quote) = (*byte != b'"', *byte == b'"');
            } else if *byte == b'"' && (field_start || after_quote) {
                (quoted, field_start, after_quote) = (true, false, false);
            } else {
                (field_start, after_quote) = (*byte == b',', false);
                if *byte == b'\n' {
                    end = Some(at);
                    break;
                }
            }
        }
        let content = |end: usize| {
            let row = &input[begin..end];
            row.strip_suffix(b"\r").unwrap_or(row)
        };
        let row_end = end.or((!quoted).then_some(input.len()));
        let offset = begin as u64;
        match row_end {
            Some(end) if content(end).len() <= max_record => {
                cuts.push(Cut::Whole(offset, content(end).to_vec()));
                begin = end + 1;
            }
            _ => {
                let line_feed = input[begin..].iter().position(|byte| *byte == b'\n');
                let end = line_feed.map_or(input.len(), |at| begin + at);
                let line = content(end);
                let (preview, length) = (line.to_vec(), line.len() as u64);
                cuts.push(if line.len() > max_record {
                    Cut::TooLong(offset, preview, length)
                } else {
                    Cut::Unclosed(offset, preview, length)
                });
                begin = end + 1;
            }
        }
    }
    cuts
}

proptest! {
    #[test]
    fn rows_are_those_of_the_rule_whatever_was_refused_before(
        input in "([a\",\n]|\"\n|,\"|\r|aaaa){0,200}",
        max_record in 1usize..60,
        reads in proptest::collection::vec(1usize..50, 1..5),
    ) {
        let rule = Rule::Rows { delimiter: b',' };
        prop_assert_eq!(
            cut_in_reads(rule, max_record, input.as_bytes(), &reads, 0),
            model_of_rows(max_record, input.as_bytes())
        );
    }

    #[test]
    fn lines_do_not_depend_on_how_the_input_was_read(
        input in proptest::collection::vec(prop_oneof![3 => Just(b'a'), 1 => Just(b'\n'), 1 => Just(b'\r'), 1 => any::<u8>()], 0..300),
        max_record in 1usize..40,
        reads in proptest::collection::vec(1usize..50, 1..5),
    ) {
        prop_assert_eq!(cut_in_reads(Rule::Lines, max_record, &input, &reads, 0), model(max_record, &input));
    }

    #[test]
    fn rows_do_not_depend_on_how_the_input_was_read(
        input in "([a\",\n\r]|aaaa){0,120}",
        max_record in 1usize..40,
        reads in proptest::collection::vec(1usize..50, 1..5),
    ) {
        let rule = Rule::Rows { delimiter: b',' };
        let all_at_once = cut_in_reads(rule, max_record, input.as_bytes(), &[1000], 0);
        prop_assert_eq!(cut_in_reads(rule, max_record, input.as_bytes(), &reads, 0), all_at_once);
    }

    #[test]
    fn reading_on_from_any_piece_gives_the_pieces_after_it(
        input in "([a\",\n\r]|aaaa){0,120}",
        max_record in 1usize..40,
        rows in any::<bool>(),
    ) {
        let rule = if rows { Rule::Rows { delimiter: b',' } } else { Rule::Lines };
        let all = cut_in_reads(rule, max_record, input.as_bytes(), &[7], 0);
        for (index, cut) in all.iter().enumerate() {
            let (Cut::Whole(offset, _) | Cut::TooLong(offset, _, _) | Cut::Unclosed(offset, _, _)) = cut;
            prop_assert_eq!(&cut_in_reads(rule, max_record, input.as_bytes(), &[5], *offset), &all[index..]);
        }
    }

    #[test]
    fn a_piece_put_back_is_cut_again(input in "[a\n]{1,60}", back in proptest::collection::vec(any::<bool>(), 1..9)) {
        let mut cutter = Cutter::new(Rule::Lines, 100, 0);
        cutter.space()[..input.len()].copy_from_slice(input.as_bytes());
        cutter.filled(input.len());
        let mut cuts = Vec::new();
        let mut back = back.into_iter().cycle();
        while let Some(piece) = cutter.cut(true).map(owned) {
            if back.next() == Some(true) {
                cutter.put_back();
                let again = cutter.cut(true).map(owned);
                prop_assert_eq!(again.as_ref(), Some(&piece));
            }
            cuts.push(piece);
        }
        prop_assert_eq!(cuts, model(100, input.as_bytes()));
    }
}

#[test]
fn a_quoted_field_may_hold_line_ends() {
    let input = b"a,\"x\ny\"\"\n\",b\nnext\n";
    let cuts = cut_in_reads(Rule::Rows { delimiter: b',' }, 100, input, &[3], 0);
    let expected = [
        Cut::Whole(0, b"a,\"x\ny\"\"\n\",b".to_vec()),
        Cut::Whole(13, b"next".to_vec()),
    ];
    assert_eq!(cuts, expected);
}

#[test]
fn a_quote_that_is_never_closed_costs_its_own_line_only() {
    let input = b"1,\"open\n2,b\n3,c\n";
    let cuts = cut_in_reads(Rule::Rows { delimiter: b',' }, 100, input, &[4], 0);
    let expected = [
        Cut::Unclosed(0, b"1,\"open".to_vec(), 7),
        Cut::Whole(8, b"2,b".to_vec()),
        Cut::Whole(12, b"3,c".to_vec()),
    ];
    assert_eq!(cuts, expected);
}

#[test]
fn a_quote_within_a_plain_field_is_a_character() {
    let cuts = cut_in_reads(
        Rule::Rows { delimiter: b',' },
        100,
        b"5\" disk,x\nnext\n",
        &[4],
        0,
    );
    assert_eq!(cuts.len(), 2);
}
