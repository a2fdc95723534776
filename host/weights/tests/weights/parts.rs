//! Models in several parts: any of them opens all, and what does not belong together is refused by name.

use std::path::{Path, PathBuf};

use tidegate_weights::{Checkpoint, ReadWhole, gguf_vocabulary};

use crate::goldens::golden;
use crate::made::{Files, Gguf, Value, gguf};
use crate::probe::probe;

const NAMES: [&str; 3] = [
    "m/x-00001-of-00003.gguf",
    "m/x-00002-of-00003.gguf",
    "m/x-00003-of-00003.gguf",
];

fn parts() -> Vec<Gguf> {
    gguf().parts(&[4, 5, 2])
}

fn files(parts: &[Gguf]) -> Files {
    let named = NAMES.iter().zip(parts);
    named.fold(Files::default(), |files, (name, part)| {
        files.with(name, part.bytes())
    })
}

/// Why the parts are refused, whichever is given; the message names the same place whichever it is.
#[track_caller]
fn assert_refused(files: &Files, words: &str) {
    for name in NAMES {
        let error = match Checkpoint::open(Path::new(name), files) {
            Err(error) => error.to_string(),
            Ok(checkpoint) => checkpoint.check().unwrap_err().to_string(),
        };
        assert!(error.contains(words), "{name}: {error}");
        assert!(error.starts_with("m/x-0000"), "{error}");
    }
}

#[test]
fn any_part_opens_the_whole_model() {
    let whole = Files::default().with("m.gguf", gguf().bytes());
    let whole = Checkpoint::open(Path::new("m.gguf"), &whole).unwrap();
    let files = files(&parts());
    let mut digests = Vec::new();
    for name in NAMES {
        let checkpoint = Checkpoint::open(Path::new(name), &files).unwrap();
        checkpoint.check().unwrap();
        assert_eq!(probe(&checkpoint), 11);
        assert_eq!(checkpoint.decoder(), whole.decoder());
        assert_eq!(checkpoint.gguf_vocabulary(), whole.gguf_vocabulary());
        for tensor in whole.decoder().unwrap().tensors() {
            let read = |of: &Checkpoint| of.tensor(tensor).unwrap().to_f32().unwrap();
            assert_eq!(read(&checkpoint), read(&whole), "{tensor:?}");
        }
        let vocabulary = gguf_vocabulary(Path::new(name), &files).unwrap();
        assert_eq!(vocabulary, whole.gguf_vocabulary());
        digests.push(checkpoint.digest().unwrap());
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    assert_ne!(digests[0], whole.digest().unwrap());
    // Every part is part of the digest.
    let mut changed = parts();
    *changed[2].tensors[1].3.last_mut().unwrap() ^= 1;
    let changed = self::files(&changed);
    let changed = Checkpoint::open(Path::new(NAMES[0]), &changed).unwrap();
    assert_ne!(changed.digest().unwrap(), digests[0]);
}

#[test]
fn keys_of_parts_are_compared_bit_for_bit() {
    let mut all = parts();
    for part in [0, 2] {
        let number = Value::F32(f32::NAN);
        all[part] = all[part].clone().set("x.number", number);
        let numbers = Value::F32s(vec![1.0, f32::NAN]);
        all[part] = all[part].clone().set("x.numbers", numbers);
    }
    Checkpoint::open(Path::new(NAMES[0]), &files(&all)).unwrap();
    all[2] = all[2]
        .clone()
        .set("x.numbers", Value::F32s(vec![1.0, -f32::NAN]));
    let error = Checkpoint::open(Path::new(NAMES[0]), &files(&all)).unwrap_err();
    assert!(error.to_string().contains("key `x.numbers`"), "{error}");
}

#[test]
fn parts_that_the_gguf_package_wrote_are_the_model_of_one_file() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../reference/tests/golden/gguf-llama-q8_0-parts");
    let whole = golden("gguf-llama-q8_0");
    for number in 1..=3 {
        let path: PathBuf = directory.join(format!("model-{number:05}-of-00003.gguf"));
        let checkpoint = Checkpoint::open(&path, &ReadWhole).unwrap();
        checkpoint.check().unwrap();
        for tensor in whole.decoder().unwrap().tensors() {
            let read = |of: &Checkpoint| of.tensor(tensor).unwrap().to_f32().unwrap();
            assert_eq!(read(&checkpoint), read(&whole), "{tensor:?}");
        }
    }
}

#[test]
fn the_first_part_may_have_no_tensors() {
    let files = files(&gguf().parts(&[0, 9, 2]));
    let checkpoint = Checkpoint::open(Path::new(NAMES[1]), &files).unwrap();
    checkpoint.check().unwrap();
    assert_eq!(probe(&checkpoint), 11);
    let none = self::files(
        &Gguf {
            tensors: Vec::new(),
            ..gguf()
        }
        .parts(&[0, 0, 0]),
    );
    assert_refused(&none, "holds no model: its header says");
}

#[test]
fn missing_parts_are_named() {
    let mut files = files(&parts());
    files.0.remove(Path::new(NAMES[1]));
    for given in [NAMES[0], NAMES[2]] {
        let error = Checkpoint::open(Path::new(given), &files).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{given} is one of 3 parts; put beside it x-00002-of-00003.gguf")
        );
    }
    let error = gguf_vocabulary(Path::new(NAMES[1]), &Files::default()).unwrap_err();
    assert!(error.to_string().contains("holds no model"), "{error}");
    let many = gguf().parts(&[1; 9]);
    let alone = Files::default().with("x-00002-of-00009.gguf", many[1].bytes());
    let error = Checkpoint::open(Path::new("x-00002-of-00009.gguf"), &alone).unwrap_err();
    assert_eq!(
        error.to_string(),
        "x-00002-of-00009.gguf is one of 9 parts; put beside it x-00001-of-00009.gguf, x-00003-of-00009.gguf, \
         x-00004-of-00009.gguf, x-00005-of-00009.gguf and 4 more"
    );
    // The vocabulary is in the first.
    let error = gguf_vocabulary(Path::new("x-00002-of-00009.gguf"), &alone).unwrap_err();
    assert!(
        error.to_string().starts_with("x-00001-of-00009.gguf"),
        "{error}"
    );
}

#[test]
fn parts_under_other_names_are_refused_with_the_name_they_need() {
    for name in [
        "renamed.gguf",
        "x-00001-of-00003.gguf",
        "x-00002-of-00004.gguf",
    ] {
        let files = Files::default().with(name, parts()[1].bytes());
        let error = Checkpoint::open(Path::new(name), &files).unwrap_err();
        let words = "it is part 2 of 3, so its name must end in -00002-of-00003.gguf, as the others are found by theirs: give \
            it that name back, or join the parts with llama-gguf-split --merge";
        assert_eq!(error.to_string(), format!("{name}: {words}"));
        assert!(gguf_vocabulary(Path::new(name), &files).is_err());
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused_by_name() {
    let put = |index: usize, part: Gguf| {
        let mut all = parts();
        all[index] = part;
        files(&all)
    };
    let third = |part: Gguf| {
        let files = put(2, part);
        let error = Checkpoint::open(Path::new(NAMES[0]), &files).unwrap_err();
        error.to_string()
    };
    // A part twice.
    assert_eq!(
        third(parts()[1].clone()),
        "m/x-00003-of-00003.gguf: it is part 2 (by its key `split.no`) under the name of part 3: fetch part 3 again"
    );
    // A whole model in the place of a part.
    assert_eq!(
        third(gguf()),
        "m/x-00003-of-00003.gguf: it has the name of part 3 of 3, but it is no part (it has no key `split.count`): put the part \
         of that name in its place"
    );
    // A part of a model in another number of parts.
    assert_eq!(
        third(gguf().parts(&[3, 3, 3, 2])[2].clone()),
        "m/x-00003-of-00003.gguf: it is of a model in 4 parts, not 3: fetch all parts of one model"
    );
    // A part of a model with other keys.
    let other = parts()[2]
        .clone()
        .set("general.architecture", Value::Text(b"qwen2".to_vec()));
    assert_eq!(
        third(other),
        "m/x-00003-of-00003.gguf: its key `general.architecture` is not that of m/x-00001-of-00003.gguf: fetch all parts of one \
         model"
    );
    // A part of the same model, cut elsewhere.
    assert_eq!(
        third(gguf().parts(&[4, 4, 3])[2].clone()),
        "m/x-00003-of-00003.gguf: its tensor `output_norm.weight` is in m/x-00002-of-00003.gguf, too: fetch all parts of one model"
    );
    assert_refused(
        &put(2, gguf().parts(&[4, 6, 1])[2].clone()),
        "m/x-00001-of-00003.gguf: its key `split.tensors.count` is 11, but the 3 parts hold 10 tensors: fetch all parts of one \
         model",
    );
    // A part that is damaged.
    let mut all = parts();
    all[1].version = 1;
    let error = Checkpoint::open(Path::new(NAMES[0]), &files(&all)).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("m/x-00002-of-00003.gguf is not a whole GGUF file"),
        "{error}"
    );
    let mut cut = files(&parts());
    cut.0.get_mut(Path::new(NAMES[2])).unwrap().pop();
    assert_refused(&cut, "m/x-00003-of-00003.gguf is not a whole GGUF file");
}

#[test]
fn absurd_numbers_of_parts_are_refused() {
    let part = |key: &str, value: Value| {
        let part = parts()[0].clone().set(key, value);
        let files = Files::default().with(NAMES[0], part.bytes());
        let error = Checkpoint::open(Path::new(NAMES[0]), &files).unwrap_err();
        error.to_string()
    };
    let error = part("split.count", Value::U32(1025));
    assert!(
        error.ends_with("`split.count` is 1025, must be at most 1024"),
        "{error}"
    );
    let error = part("split.no", Value::U32(3));
    assert!(
        error.ends_with("`split.no` is 3, must be below split.count, 3"),
        "{error}"
    );
    let error = part("split.count", Value::Text(b"3".to_vec()));
    assert!(
        error.contains("`split.count` is 3, must be a whole number"),
        "{error}"
    );
    let missing = parts()[0].clone().without("split.no");
    let files = Files::default().with(NAMES[0], missing.bytes());
    let error = Checkpoint::open(Path::new(NAMES[0]), &files).unwrap_err();
    assert!(
        error.to_string().contains("key `split.no` is missing"),
        "{error}"
    );
    // One part of one is whole, under any name.
    for count in [0, 1] {
        let whole = gguf().set("split.count", Value::U32(count));
        let files = Files::default().with("any.gguf", whole.bytes());
        Checkpoint::open(Path::new("any.gguf"), &files)
            .unwrap()
            .check()
            .unwrap();
    }
}
