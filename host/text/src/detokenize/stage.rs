//! One stage of a tokenizer's decoder, as a stream.
//!
//! The `tokenizers` library decodes a list of elements (at first the names of the tokens) from stage to stage, each
//! stage the whole list at once. Here an element may come in pieces, and each stage gives on what no later piece can
//! change. What a stage keeps is bounded: three bytes, one element, or as many characters as its pattern has.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use tokenizers::decoders::wordpiece::cleanup;
use tokenizers::normalizers::Replace;
use tokenizers::{Decoder, DecoderWrapper};

use crate::token_bytes::{byte_characters, fallback_byte};

/// Text of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Whether it goes on with the element that the piece before belongs to.
    pub(super) goes_on: bool,
}

impl Piece {
    pub(super) fn element(text: String) -> Piece {
        let goes_on = false;
        Piece { text, goes_on }
    }
}

/// A stage and what it keeps.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    /// No decoder at all: a space between elements.
    Spaces { begun: bool },
    /// `ByteLevel`: one element, of the bytes that the characters of all stand for.
    ByteLevel { pending: Vec<u8>, begun: bool },
    /// `ByteFallback`: elements like `<0x0A>` are bytes, those in a row one element. `run` is whether one has begun to
    /// be given on.
    ByteFallback { pending: Vec<u8>, run: bool },
    /// `Fuse`: all is one element.
    Fuse { begun: bool },
    /// `Metaspace`: what stands for a space; in the first element it stands for nothing where a space is put before
    /// each text.
    Metaspace {
        space: char,
        prepended: bool,
        elements: usize,
    },
    /// `WordPiece`: a space before each element that does not begin with `prefix`.
    WordPiece {
        prefix: String,
        clean: bool,
        begun: bool,
    },
    /// `Replace` of a string. `held` ends like the beginning of `pattern`.
    Replace {
        pattern: String,
        content: String,
        held: String,
    },
    /// `Replace` by a regular expression, in each piece.
    ReplaceRegex(Arc<Replace>),
    /// `Strip`: at most `start` characters at the beginning of an element and `stop` at its end. `held` are those at
    /// the end by now.
    Strip {
        content: char,
        start: usize,
        stop: usize,
        left: usize,
        held: usize,
    },
    /// `BPEDecoder`: the end of a word is a space, but for the last element. `held` begins with such an end.
    Suffix {
        suffix: String,
        held: Option<String>,
    },
    /// `CTC`: elements that repeat the one before are left out.
    Repeats {
        pad: String,
        space: String,
        clean: bool,
        last: Option<String>,
    },
}

impl Stage {
    /// The stages of a tokenizer's decoder, at the beginning of a text.
    pub(crate) fn of(decoder: Option<&DecoderWrapper>) -> Vec<Stage> {
        let mut stages = Vec::new();
        match decoder {
            None => stages.push(Stage::Spaces { begun: false }),
            Some(decoder) => Stage::add(decoder, &mut stages),
        }
        stages
    }

    fn add(decoder: &DecoderWrapper, stages: &mut Vec<Stage>) {
        use tokenizers::pre_tokenizers::metaspace::PrependScheme;

        stages.push(match decoder {
            DecoderWrapper::Sequence(sequence) => {
                for decoder in sequence.get_decoders() {
                    Stage::add(decoder, stages);
                }
                return;
            }
            DecoderWrapper::ByteLevel(_) => Stage::ByteLevel {
                pending: Vec::new(),
                begun: false,
            },
            DecoderWrapper::ByteFallback(_) => Stage::ByteFallback {
                pending: Vec::new(),
                run: false,
            },
            DecoderWrapper::Fuse(_) => Stage::Fuse { begun: false },
            DecoderWrapper::Metaspace(metaspace) => Stage::Metaspace {
                space: metaspace.get_replacement(),
                prepended: metaspace.get_prepend_scheme() != PrependScheme::Never,
                elements: 0,
            },
            DecoderWrapper::WordPiece(pieces) => Stage::WordPiece {
                prefix: pieces.prefix.clone(),
                clean: pieces.cleanup,
                begun: false,
            },
            DecoderWrapper::Replace(replace) => {
                // The library has the pattern for itself, and gives it only as JSON.
                let json = serde_json::to_value(replace).unwrap_or_default();
                match json["pattern"]["String"].as_str() {
                    Some(pattern) if !pattern.is_empty() => Stage::Replace {
                        pattern: pattern.to_owned(),
                        content: replace.content.clone(),
                        held: String::new(),
                    },
                    _ => Stage::ReplaceRegex(Arc::new(replace.clone())),
                }
            }
            DecoderWrapper::Strip(strip) => Stage::Strip {
                content: strip.content,
                start: strip.start,
                stop: strip.stop,
                left: 0,
                held: 0,
            },
            DecoderWrapper::BPE(bpe) => Stage::Suffix {
                suffix: bpe.suffix.clone(),
                held: None,
            },
            DecoderWrapper::CTC(ctc) => Stage::Repeats {
                pad: ctc.pad_token.clone(),
                space: ctc.word_delimiter_token.clone(),
                clean: ctc.cleanup,
                last: None,
            },
        });
    }

    /// Takes a piece and appends to `out` what is certain with it.
    pub(super) fn push(&mut self, piece: Piece, out: &mut Vec<Piece>) {
        let Piece { text, goes_on } = piece;
        match self {
            Stage::Spaces { begun } => {
                let before = if *begun && !goes_on { " " } else { "" };
                out.push(Piece {
                    text: format!("{before}{text}"),
                    goes_on,
                });
                *begun = true;
            }
            Stage::Fuse { begun } => {
                let goes_on = std::mem::replace(begun, true);
                out.push(Piece { text, goes_on });
            }
            Stage::ByteLevel { pending, begun } => {
                let bytes: Option<Vec<u8>> =
                    text.chars().map(|c| BYTE_OF.get(&c).copied()).collect();
                pending.extend(bytes.unwrap_or_else(|| text.into_bytes()));
                let mut text = String::new();
                take_text(pending, &mut text);
                let goes_on = std::mem::replace(begun, true);
                out.push(Piece { text, goes_on });
            }
            Stage::ByteFallback { pending, run } => {
                match (!goes_on).then(|| fallback_byte(&text)).flatten() {
                    Some(byte) => {
                        pending.push(byte);
                        take_characters(pending, |taken| match taken {
                            Taken::Text(characters) => out.push(Piece {
                                text: characters.to_owned(),
                                goes_on: std::mem::replace(run, true),
                            }),
                            Taken::IllFormed(bytes) => {
                                out.extend(replacements(bytes));
                                *run = false;
                            }
                        });
                    }
                    None => {
                        end_of_run(pending, run, out);
                        out.push(Piece { text, goes_on });
                    }
                }
            }
            Stage::Metaspace {
                space,
                prepended,
                elements,
            } => {
                *elements += usize::from(!goes_on || *elements == 0);
                let first = *elements == 1 && *prepended;
                let of_character = |c: char| match c == *space {
                    true => (!first).then_some(' '),
                    false => Some(c),
                };
                let text = text.chars().filter_map(of_character).collect();
                out.push(Piece { text, goes_on });
            }
            Stage::WordPiece {
                prefix,
                clean,
                begun,
            } => {
                let spaced = match std::mem::replace(begun, true) && !goes_on {
                    false => text,
                    true => match text.strip_prefix(prefix.as_str()) {
                        Some(rest) => rest.to_owned(),
                        None => format!(" {text}"),
                    },
                };
                let text = if *clean { cleanup(&spaced) } else { spaced };
                out.push(Piece { text, goes_on });
            }
            Stage::Replace {
                pattern,
                content,
                held,
            } => {
                if !goes_on {
                    give_held(held, out);
                }
                let all = std::mem::take(held) + &text;
                let (all, rest) = all.split_at(all.len() - beginning_at_end(&all, pattern));
                *held = rest.to_owned();
                // Also when it is empty: an element has begun.
                out.push(Piece {
                    text: all.replace(pattern.as_str(), content),
                    goes_on,
                });
            }
            Stage::ReplaceRegex(replace) => {
                let replaced =
                    crate::tokenizer::guarded(|| replace.decode_chain(vec![text.clone()]));
                out.push(Piece {
                    text: replaced.map_or(text, |pieces| pieces.concat()),
                    goes_on,
                });
            }
            Stage::Strip {
                content,
                start,
                stop,
                left,
                held,
            } => {
                if !goes_on {
                    *left = *start;
                    *held = 0;
                }
                let mut kept = String::new();
                for c in text.chars() {
                    if c != *content {
                        *left = 0;
                        kept.extend(std::iter::repeat_n(*content, *held));
                        *held = 0;
                        kept.push(c);
                    } else if *left > 0 {
                        *left -= 1;
                    } else if *held < *stop {
                        *held += 1;
                    } else {
                        kept.push(c);
                    }
                }
                out.push(Piece {
                    text: kept,
                    goes_on,
                });
            }
            Stage::Suffix { suffix, held } => {
                if let Some(held) = held.take() {
                    let between = if goes_on { "" } else { " " };
                    out.push(Piece {
                        text: held.replace(suffix.as_str(), between),
                        goes_on: true,
                    });
                }
                let (before, end) = match text.find(suffix.as_str()) {
                    Some(at) => (&text[..at], Some(text[at..].to_owned())),
                    None => (text.as_str(), None),
                };
                *held = end;
                out.push(Piece {
                    text: before.to_owned(),
                    goes_on,
                });
            }
            Stage::Repeats {
                pad,
                space,
                clean,
                last,
            } => {
                if !goes_on && last.as_ref() == Some(&text) {
                    return;
                }
                let mut given = text.replace(pad.as_str(), "");
                if *clean {
                    given = cleanup(&given).replace(space.as_str(), " ");
                }
                *last = Some(text);
                if !given.is_empty() {
                    out.push(Piece {
                        text: given,
                        goes_on,
                    });
                }
            }
        }
    }

    /// The last piece has come: appends to `out` what was kept.
    pub(super) fn finish(&mut self, out: &mut Vec<Piece>) {
        match self {
            Stage::ByteLevel { pending, begun } if !pending.is_empty() => {
                let text = String::from_utf8_lossy(pending).into_owned();
                pending.clear();
                let goes_on = std::mem::replace(begun, true);
                out.push(Piece { text, goes_on });
            }
            Stage::ByteFallback { pending, run } => end_of_run(pending, run, out),
            Stage::Replace { held, .. } => give_held(held, out),
            Stage::Strip { held, .. } => *held = 0,
            Stage::Suffix { suffix, held } => out.extend(held.take().map(|held| Piece {
                text: held.replace(suffix.as_str(), ""),
                goes_on: true,
            })),
            _ => {}
        }
    }
}

static BYTE_OF: LazyLock<HashMap<char, u8>> =
    LazyLock::new(|| byte_characters().into_iter().zip(0..=255).collect());

/// A row of bytes has ended: an unfinished character is none.
fn end_of_run(pending: &mut Vec<u8>, run: &mut bool, out: &mut Vec<Piece>) {
    out.extend(replacements(pending.len()));
    pending.clear();
    *run = false;
}

/// What the library gives for bytes that are no character: each is an element, U+FFFD.
fn replacements(bytes: usize) -> impl Iterator<Item = Piece> {
    let replacement = Piece::element(char::REPLACEMENT_CHARACTER.to_string());
    std::iter::repeat_n(replacement, bytes)
}

fn give_held(held: &mut String, out: &mut Vec<Piece>) {
    if !held.is_empty() {
        out.push(Piece {
            text: std::mem::take(held),
            goes_on: true,
        });
    }
}

/// How many bytes at the end of `text`, outside whole occurrences of `pattern`, are a beginning of it.
fn beginning_at_end(text: &str, pattern: &str) -> usize {
    let after = text
        .match_indices(pattern)
        .last()
        .map_or(0, |(at, found)| at + found.len());
    let rest = &text[after..];
    let lengths = pattern.char_indices().map(|(at, _)| at).rev();
    lengths
        .filter(|length| *length > 0)
        .find(|length| rest.ends_with(&pattern[..*length]))
        .unwrap_or(0)
}

enum Taken<'a> {
    /// Whole characters.
    Text(&'a str),
    /// So many bytes that are in no character: as many as begin one together, or one.
    IllFormed(usize),
}

/// Takes from `pending` what no later byte can change, with U+FFFD for bytes that are in no character.
pub(super) fn take_text(pending: &mut Vec<u8>, out: &mut String) {
    take_characters(pending, |taken| match taken {
        Taken::Text(characters) => out.push_str(characters),
        Taken::IllFormed(_) => out.push(char::REPLACEMENT_CHARACTER),
    });
}

/// Takes from `pending` all but the beginning of a character that may still become whole, at most three bytes.
fn take_characters(pending: &mut Vec<u8>, mut take: impl FnMut(Taken<'_>)) {
    let mut chunks = pending.utf8_chunks().peekable();
    let mut kept = 0;
    while let Some(chunk) = chunks.next() {
        if !chunk.valid().is_empty() {
            take(Taken::Text(chunk.valid()));
        }
        let invalid = chunk.invalid();
        let unfinished = || std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none());
        if chunks.peek().is_none() && unfinished() {
            kept = invalid.len();
        } else if !invalid.is_empty() {
            take(Taken::IllFormed(invalid.len()));
        }
    }
    pending.drain(..pending.len() - kept);
}
