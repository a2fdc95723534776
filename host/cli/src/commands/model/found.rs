//! What a path is that no model can be opened from: what lies there, and what would work in its place.
//!
//! Files are told by their first bytes (the magic numbers of their formats), directories by the names of the files in them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde_json::{Map, Value, json};
use tidegate_infer::MappedFiles;
use tidegate_weights::{
    CheckpointError, ConfigError, LoraError, LoraSummary, TensorError, nearest_architecture,
};

use super::gguf::in_lines;
use super::info::Line;
use super::size;
use crate::commands::{print, print_json};
use crate::exit::{Failure, with_causes};
use crate::models::{MARK, open_checkpoint, with_loras};

/// First bytes that are read of a file.
const HEAD: u64 = 64 << 10;

/// Bytes of a config.json that are read.
const MOST_CONFIG: u64 = 16 << 20;

/// Most names of a directory that are looked at.
const MOST_NAMES: usize = 10_000;

/// Most kinds of modules of an adapter that are told.
const MOST_TARGETS: usize = 16;

/// How the weights of a PyTorch checkpoint become safetensors.
const FROM_PYTORCH: &str = "the model's safetensors, which most makers publish beside it; or convert it with transformers: \
    AutoModelForCausalLM.from_pretrained(DIRECTORY).save_pretrained(NEW), and the same of AutoTokenizer";

/// What stands for all that is not read.
const A_MODEL: &str = "a directory with config.json, model.safetensors and tokenizer.json as Hugging Face publishes it, or a .gguf file";

/// What lies at a path, and what would work.
#[derive(Debug, PartialEq)]
struct Found {
    what: String,
    nearest: String,
}

fn found(what: impl Into<String>, nearest: impl Into<String>) -> Found {
    Found {
        what: what.into(),
        nearest: nearest.into(),
    }
}

/// What there is to be known of a path that is refused: printed, then the failure.
pub(super) fn refused(
    path: &Path,
    error: anyhow::Error,
    as_json: bool,
) -> Result<Failure, Failure> {
    let Some(found) = look(path, &error) else {
        return Ok(error.into());
    };
    if as_json {
        let report = json!({"loads": false, "file": found.what, "refused": with_causes(&error), "nearest": found.nearest});
        print_json(&format!("{report:#}"))?;
        return Ok(error.into());
    }
    print(&in_lines(&[
        ("file", found.what),
        ("refused", with_causes(&error)),
        ("what would work", found.nearest),
    ]))?;
    Ok(error.into())
}

/// Nothing where nothing can be read there.
fn look(path: &Path, error: &anyhow::Error) -> Option<Found> {
    match path.is_dir() {
        true => directory(path, error.downcast_ref::<CheckpointError>()),
        false => file(path),
    }
}

fn file(path: &Path) -> Option<Found> {
    let bytes = std::fs::metadata(path).ok()?.len();
    let mut head = Vec::new();
    let opened = open(path).ok()?;
    opened.take(HEAD).read_to_end(&mut head).ok()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let found = by_bytes(path, &name.to_lowercase(), &head, bytes);
    Some(Found {
        what: format!("{}, {}", found.what, size(bytes)),
        ..found
    })
}

/// A regular file: a pipe in its place has no end, or none to come.
fn open(path: &Path) -> io::Result<File> {
    match std::fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}

fn by_bytes(path: &Path, name: &str, head: &[u8], bytes: u64) -> Found {
    let begins = |magic: &[u8]| head.starts_with(magic);
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if head.is_empty() {
        return found("an empty file", "the whole file: fetch it again");
    }
    if begins(b"version https://git-lfs") {
        return found(
            "a pointer of Git LFS, not the file that it stands for",
            "the file itself: `git lfs pull` in its repository",
        );
    }
    if begins(b"GGUF") {
        return found(
            "a GGUF file by another name",
            "the same under a name that ends with .gguf",
        );
    }
    if [&b"lmgg"[..], b"fmgg", b"tjgg", b"algg"]
        .iter()
        .any(|magic| begins(magic))
    {
        return found(
            "a file of llama.cpp from before GGUF (August 2023)",
            "a conversion of the model to GGUF by a newer llama.cpp",
        );
    }
    let image = [&b"\x89PNG"[..], b"\xff\xd8\xff", b"GIF8", b"BM"];
    if image.iter().any(|magic| begins(magic))
        || (begins(b"RIFF") && head.get(8..12) == Some(b"WEBP"))
    {
        return found("an image", A_MODEL);
    }
    let is_pickle = head.first() == Some(&0x80) && matches!(head.get(1), Some(2..=5));
    if is_pickle || ends(&[".bin", ".pt", ".pth", ".ckpt"]) {
        return found(
            "weights of PyTorch, which are read by running what they hold",
            FROM_PYTORCH,
        );
    }
    if ends(&[".onnx"]) {
        return found(
            "an ONNX graph",
            "the model that it was made from, as safetensors or GGUF",
        );
    }
    if begins(b"\x89HDF") || ends(&[".msgpack", ".h5"]) || head.get(4..8) == Some(b"TFL3") {
        return found(
            "weights of TensorFlow or Flax",
            "the model's safetensors, which most makers publish beside it",
        );
    }
    if begins(b"PK\x03\x04") {
        return found("a zip archive", "what is in it, unpacked");
    }
    let header = head.get(..8).and_then(|first| first.try_into().ok());
    let header = header.map_or(u64::MAX, u64::from_le_bytes);
    if header < bytes && head.get(8) == Some(&b'{') {
        return safetensors(path, head);
    }
    let beside = path
        .parent()
        .is_some_and(|parent| parent.join("config.json").is_file());
    if begins(b"{") && beside {
        return found(
            "one file of a model's directory",
            format!("its directory: {}", parent(path)),
        );
    }
    found("a file of a kind that is not known", A_MODEL)
}

fn parent(path: &Path) -> String {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).display().to_string()
}

fn safetensors(path: &Path, head: &[u8]) -> Found {
    let what = "weights in safetensors by themselves";
    let beside = |name: &str| {
        path.parent()
            .is_some_and(|parent| parent.join(name).is_file())
    };
    let directory = parent(path);
    if beside("config.json") || beside("adapter_config.json") {
        return found(what, format!("their directory: {directory}"));
    }
    if String::from_utf8_lossy(head).contains(".lora_A.") {
        return found(
            "weights of a low-rank adapter by themselves",
            "them as adapter_model.safetensors beside the adapter's adapter_config.json, over the base that they were trained on",
        );
    }
    found(
        what,
        "them as model.safetensors in a directory with the model's config.json and tokenizer.json",
    )
}

fn directory(path: &Path, error: Option<&CheckpointError>) -> Option<Found> {
    let entries = std::fs::read_dir(path).ok()?;
    let names = entries.take(MOST_NAMES).filter_map(Result::ok);
    let mut names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    let has = |name: &str| names.iter().any(|found| found == name);
    let ending = |ending: &str| {
        names
            .iter()
            .find(|name| name.to_lowercase().ends_with(ending))
    };
    let other = || {
        let of_pytorch = |name: &&String| {
            let lower = name.to_lowercase();
            [".bin", ".bin.index.json", ".pt", ".pth", ".ckpt"]
                .iter()
                .any(|ending| lower.ends_with(ending))
        };
        if let Some(name) = ending(".gguf") {
            return Some(found(
                format!("a directory with GGUF files, {name:?} among them"),
                format!("the file: {}", path.join(name).display()),
            ));
        }
        if let Some(name) = names.iter().find(of_pytorch) {
            return Some(found(
                format!("weights of PyTorch ({name:?}), which are read by running what they hold"),
                FROM_PYTORCH,
            ));
        }
        if let Some(name) = ending(".onnx") {
            return Some(found(
                format!("an ONNX graph ({name:?})"),
                "the model that it was made from, as safetensors or GGUF",
            ));
        }
        let other = [".h5", ".msgpack", ".tflite"].into_iter().find_map(ending);
        other.map(|name| {
            found(
                format!("weights of TensorFlow or Flax ({name:?})"),
                "the model's safetensors, which most makers publish beside it",
            )
        })
    };
    if has(MARK) {
        return Some(found(
            "a directory that a conversion into has not ended",
            "the same after it: run `tidegate model convert` into it again where none is running",
        ));
    }
    if has("model_index.json") && !has("config.json") {
        return Some(found(
            "a pipeline of diffusers, which makes images",
            format!("none for images; for text {A_MODEL}"),
        ));
    }
    if has("config.json") {
        let weights = has("model.safetensors") || has("model.safetensors.index.json");
        return Some(match error {
            Some(CheckpointError::Config { source, .. }) => refused_config(path, source),
            Some(CheckpointError::Tensor {
                source: TensorError::Unread { .. },
                ..
            }) => found(
                "a model's directory with a tensor that its architecture does not have",
                "the same model as safetensors in f16 or bf16, or as GGUF, if its makers or others publish it so without this tensor",
            ),
            _ if !weights => other().unwrap_or_else(|| {
                found(
                    "a model's directory without its weights",
                    "the same with model.safetensors, or model.safetensors.index.json and the parts that it names",
                )
            }),
            _ => match lfs_pointer(path, &names) {
                Some(name) => found(
                    format!("a model's directory in which {name:?} is a pointer of Git LFS"),
                    "the files themselves: `git lfs pull` in the directory",
                ),
                None => found(
                    "a model's directory",
                    "all of its files anew: one of them is damaged, or not of this model",
                ),
            },
        });
    }
    if let Some(found) = other() {
        return Some(found);
    }
    if let Some(name) = ending(".safetensors") {
        return Some(found(
            format!("weights in safetensors ({name:?}) without config.json"),
            "the same directory with the model's config.json and tokenizer.json",
        ));
    }
    let below = names
        .iter()
        .find(|name| path.join(name).join("config.json").is_file());
    if let Some(name) = below {
        return Some(found(
            format!("a directory that has a model in {name:?}"),
            format!("that directory: {}", path.join(name).display()),
        ));
    }
    Some(match (names.is_empty(), has("tokenizer.json")) {
        (true, _) => found("an empty directory", A_MODEL),
        (false, true) => found(
            "a tokenizer without a model",
            "the same directory with the model's config.json and model.safetensors",
        ),
        (false, false) => found("a directory with nothing of a model", A_MODEL),
    })
}

/// The weights that are only a pointer, if any are.
fn lfs_pointer<'n>(path: &Path, names: &'n [String]) -> Option<&'n String> {
    names
        .iter()
        .filter(|name| name.ends_with(".safetensors") || name.ends_with(".json"))
        .find(|name| {
            let mut head = Vec::new();
            let opened = open(&path.join(name));
            let read = opened.and_then(|file| file.take(32).read_to_end(&mut head));
            read.is_ok() && head.starts_with(b"version https://git-lfs")
        })
}

/// A directory whose config.json is refused.
fn refused_config(path: &Path, error: &ConfigError) -> Found {
    let mut bytes = Vec::new();
    let read = open(&path.join("config.json"))
        .and_then(|file| file.take(MOST_CONFIG).read_to_end(&mut bytes));
    let bytes = read.map_or_else(|_| Vec::new(), |_| bytes);
    let config: Map<String, Value> = serde_json::from_slice(&bytes).unwrap_or_default();
    let architecture = config
        .get("architectures")
        .and_then(|names| names.get(0)?.as_str());
    let model = match architecture {
        Some(name) => format!(
            "a model of {}",
            name.escape_debug().take(80).collect::<String>()
        ),
        None => "a model's directory".to_owned(),
    };
    let key = match error {
        ConfigError::Unsupported { key, .. }
        | ConfigError::Missing { key }
        | ConfigError::OutOfRange { key, .. } => key.as_str(),
        _ => "",
    };
    let said = config
        .get("quantization_config")
        .or(config.get("quantization"));
    let method = said
        .and_then(|said| said.get("quant_method"))
        .and_then(Value::as_str);
    match (key, said) {
        ("architectures", _) => match architecture {
            Some(name) => found(model, nearest_architecture(name)),
            None => found(
                "a config.json that does not say what model it is of",
                "the config.json that its makers publish, with `architectures`",
            ),
        },
        ("quantization_config" | "config_groups" | "bits", Some(said)) => {
            let by = match method {
                Some(method) => method.escape_debug().take(40).collect(),
                None if said.get("group_size").is_some() => "MLX".to_owned(),
                None => "a tool that it does not name".to_owned(),
            };
            found(
                format!("{model}, quantized by {by}"),
                "the same model as its makers publish it (bf16 or f16), made smaller by `tidegate model convert --to int8` or int4; or \
                 as GPTQ, AWQ or GGUF",
            )
        }
        _ => found(
            model,
            format!("a model of this family whose `{key}` is as the refusal says"),
        ),
    }
}

/// What a directory of a low-rank adapter says, and whether a base fits it; nothing if the path is none.
pub(super) fn lora(path: &Path, base: Option<&Path>, as_json: bool) -> Option<Result<(), Failure>> {
    if path.join("config.json").exists() {
        return None;
    }
    match LoraSummary::read(path, &MappedFiles) {
        Ok(None) => None,
        Ok(Some(summary)) => Some(told(path, &summary, base, as_json)),
        Err(error) => Some(Err(error.into())),
    }
}

/// What a file says, as it may be printed: it may be anything, of any length.
fn plain(text: &str) -> String {
    text.escape_debug().take(400).collect()
}

fn told(
    path: &Path,
    summary: &LoraSummary,
    base: Option<&Path>,
    as_json: bool,
) -> Result<(), Failure> {
    let said = |text: Option<String>| text.unwrap_or_else(|| "not said".to_owned());
    let named = summary.base.as_deref();
    // What it names may lie here.
    let here = base.or_else(|| named.map(Path::new).filter(|named| named.exists()));
    let fits = here.map(|base| {
        let adapted =
            open_checkpoint(base).and_then(|opened| with_loras(opened, &[path.to_owned()]));
        (base, adapted.map(|_| ()))
    });
    let more = summary.targets.len().saturating_sub(MOST_TARGETS);
    let mut targets: Vec<&str> = summary.targets.iter().map(String::as_str).collect();
    targets.truncate(MOST_TARGETS);
    let more = (more > 0).then(|| format!("and {more} more"));
    targets.extend(more.as_deref());
    let mut lines: Vec<Line> = vec![
        (
            "file",
            "a low-rank adapter (LoRA), which runs over its base".to_owned(),
        ),
        ("kind", said(summary.kind.as_deref().map(plain))),
        ("rank", said(summary.rank.map(|rank| rank.to_string()))),
        ("alpha", said(summary.alpha.map(|alpha| alpha.to_string()))),
        (
            "adapts",
            format!(
                "{} ({} tensors)",
                plain(&targets.join(", ")),
                summary.tensors
            ),
        ),
        ("base", said(named.map(plain))),
    ];
    let missing = summary.missing.join(", ");
    let refused = match &fits {
        _ if !missing.is_empty() => Some(format!("{missing} is not there")),
        Some((_, Err(error))) => Some(with_causes(error)),
        _ => None,
    };
    let nearest = match (&refused, &fits) {
        (Some(_), _) if !missing.is_empty() => {
            "the whole directory of the adapter, as save_pretrained of peft writes it".to_owned()
        }
        (Some(_), Some((_, Err(error)))) => match error.downcast_ref::<LoraError>() {
            Some(error) => error.nearest().to_owned(),
            None => "a base: a directory or a .gguf file of a model that makes text".to_owned(),
        },
        (Some(_), _) => "the base that the adapter was trained on".to_owned(),
        (None, Some((base, _))) => {
            lines.push(("fits", base.display().to_string()));
            format!(
                "[model.NAME] with type = \"lora\", base and path; `tidegate model info {} --lora {}` counts its memory",
                base.display(),
                path.display()
            )
        }
        (None, None) => format!(
            "`tidegate model info {} --base MODEL` says whether it fits a base; in a pipeline file [model.NAME] with type = \"lora\", base and path",
            path.display()
        ),
    };
    lines.extend(refused.clone().map(|refused| ("refused", refused)));
    lines.push(("what would work", nearest.clone()));
    if as_json {
        let report = json!({
            "loads": false, "file": "lora", "kind": summary.kind, "rank": summary.rank, "alpha": summary.alpha, "targets": summary.targets,
            "tensors": summary.tensors, "base": named, "missing": summary.missing, "refused": refused, "nearest": nearest,
            "fits": fits.as_ref().map(|(base, fits)| json!({"base": base, "fits": fits.is_ok()})),
        });
        print_json(&format!("{report:#}"))?;
    } else {
        print(&in_lines(&lines))?;
    }
    match (refused, fits) {
        (None, _) => Ok(()),
        (Some(_), Some((_, Err(error)))) => Err(error.into()),
        (Some(refused), _) => Err(anyhow::anyhow!("{}: {refused}", path.display()).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn golden(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../reference/tests/golden")
            .join(name)
    }

    /// What is said of a path that cannot be opened.
    fn said(path: &Path) -> Found {
        let error = open_checkpoint(path).unwrap_err();
        look(path, &error).unwrap()
    }

    #[test]
    fn a_directory_that_a_conversion_has_not_ended_in_is_told_as_that() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(MARK), "").unwrap();
        for file in ["model.safetensors", "config.json"] {
            let from = golden("bert-f16").join(file);
            std::fs::copy(from, folder.path().join(file)).unwrap();
            let told = said(folder.path());
            assert!(told.what.contains("has not ended"), "{told:?}");
            assert!(told.nearest.contains("model convert"), "{told:?}");
        }
    }

    #[test]
    fn a_tensor_that_an_architecture_does_not_have_is_told_as_that() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["model.safetensors", "config.json"] {
            let from = golden("qwen2-bf16").join(file);
            std::fs::copy(from, folder.path().join(file)).unwrap();
        }
        let config = folder.path().join("config.json");
        let as_llama = std::fs::read_to_string(&config).unwrap();
        let as_llama = as_llama.replace("Qwen2", "Llama").replace("qwen2", "llama");
        let as_llama = as_llama.replace(r#""sliding_window": 8"#, r#""sliding_window": null"#);
        std::fs::write(config, as_llama).unwrap();
        let told = said(folder.path());
        assert!(told.what.contains("does not have"), "{told:?}");
        assert!(told.nearest.contains("without this tensor"), "{told:?}");
    }

    #[test]
    fn whatever_is_no_model_is_told_with_what_would_work() {
        let folder = tempfile::tempdir().unwrap();
        let weights = std::fs::read(golden("llama-odd-f16/model.safetensors")).unwrap();
        let adapter = std::fs::read(golden(
            "adapters/llama-odd-f16/all/adapter_model.safetensors",
        ))
        .unwrap();
        let gguf = std::fs::read(golden("gguf-llama-f32/model.gguf")).unwrap();
        let files: [(&str, &[u8], &str, &str); 14] = [
            ("nothing", b"", "an empty file", "fetch it again"),
            ("a.png", b"\x89PNG\r\n", "an image", "config.json"),
            ("a.jpg", b"\xff\xd8\xff\xe0", "an image", ".gguf"),
            (
                "pytorch_model.bin",
                b"PK\x03\x04",
                "weights of PyTorch",
                "save_pretrained",
            ),
            (
                "old.model",
                b"\x80\x02}q",
                "weights of PyTorch",
                "save_pretrained",
            ),
            (
                "model.onnx",
                b"\x08\x07",
                "an ONNX graph",
                "safetensors or GGUF",
            ),
            (
                "tf_model.h5",
                b"\x89HDF\r\n",
                "TensorFlow or Flax",
                "safetensors",
            ),
            ("model.zip", b"PK\x03\x04", "a zip archive", "unpacked"),
            ("q4.bin.old", b"tjgg\x03", "before GGUF", "newer llama.cpp"),
            (
                "pointer",
                b"version https://git-lfs.github.com/spec/v1\n",
                "Git LFS",
                "git lfs pull",
            ),
            (
                "renamed",
                &gguf,
                "a GGUF file by another name",
                "ends with .gguf",
            ),
            (
                "alone.safetensors",
                &weights,
                "by themselves",
                "config.json and tokenizer.json",
            ),
            (
                "lora.safetensors",
                &adapter,
                "low-rank adapter",
                "adapter_config.json",
            ),
            ("what", b"what is this?", "not known", ".gguf file"),
        ];
        for (name, bytes, what, nearest) in files {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let found = said(&path);
            assert!(found.what.contains(what), "{name}: {found:?}");
            assert!(found.nearest.contains(nearest), "{name}: {found:?}");
        }
        let inside = said(&golden("llama-odd-f16/model.safetensors"));
        assert!(inside.nearest.ends_with("llama-odd-f16"), "{inside:?}");
        let inside = said(&golden("llama-odd-f16/config.json"));
        assert!(inside.nearest.ends_with("llama-odd-f16"), "{inside:?}");
    }

    #[test]
    fn directories_that_are_refused_are_told_with_what_would_work() {
        let architecture = |name: &str| json!({"architectures": [name]}).to_string();
        let mut llama: Value =
            serde_json::from_slice(&std::fs::read(golden("llama-odd-f16/config.json")).unwrap())
                .unwrap();
        let plain = llama.to_string();
        llama["quantization_config"] = json!({"group_size": 64, "bits": 4});
        let mlx = llama.to_string();
        llama["quantization_config"] =
            json!({"quant_method": "bitsandbytes", "load_in_4bit": true});
        let bitsandbytes = llama.to_string();
        let with = |name: &'static str, text: String| vec![(name, text)];
        // Files, what is said of them, and what would work.
        type Case = (Vec<(&'static str, String)>, &'static str, &'static str);
        let cases: [Case; 19] = [
            (vec![], "an empty directory", "config.json"),
            (
                with("readme", String::new()),
                "nothing of a model",
                "config.json",
            ),
            (
                with("config.json", "{}".into()),
                "does not say what model",
                "`architectures`",
            ),
            (
                with("config.json", plain.clone()),
                "without its weights",
                "model.safetensors",
            ),
            (
                vec![
                    ("config.json", plain.clone()),
                    ("pytorch_model.bin", String::new()),
                ],
                "weights of PyTorch",
                "save_pretrained",
            ),
            (
                vec![
                    ("config.json", plain.clone()),
                    ("model.onnx", String::new()),
                ],
                "an ONNX graph",
                "GGUF",
            ),
            (
                vec![
                    ("config.json", plain),
                    (
                        "model.safetensors",
                        "version https://git-lfs.github.com/spec/v1\n".into(),
                    ),
                ],
                "Git LFS",
                "git lfs pull",
            ),
            (
                with("config.json", mlx),
                "quantized by MLX",
                "tidegate model convert",
            ),
            (
                with("config.json", bitsandbytes),
                "quantized by bitsandbytes",
                "tidegate model convert",
            ),
            (
                with("model_index.json", "{}".into()),
                "diffusers",
                "none for images",
            ),
            (
                with("model.gguf", String::new()),
                "GGUF files",
                "model.gguf",
            ),
            (
                with("model.safetensors", String::new()),
                "without config.json",
                "tokenizer.json",
            ),
            (
                with("tokenizer.json", "{}".into()),
                "a tokenizer without a model",
                "model.safetensors",
            ),
            (
                with("config.json", architecture("T5ForConditionalGeneration")),
                "T5ForConditionalGeneration",
                "Llama 3.x",
            ),
            (
                with(
                    "config.json",
                    architecture("WhisperForConditionalGeneration"),
                ),
                "Whisper",
                "no model here hears",
            ),
            (
                with(
                    "config.json",
                    architecture("Qwen2VLForConditionalGeneration"),
                ),
                "Qwen2VL",
                "Qwen2.5 for text",
            ),
            (
                with("config.json", architecture("MambaForCausalLM")),
                "Mamba",
                "Llama 3.x",
            ),
            (
                with("config.json", architecture("DeepseekV3ForCausalLM")),
                "DeepseekV3",
                "distilled",
            ),
            (
                with(
                    "config.json",
                    architecture("Llama4ForConditionalGeneration"),
                ),
                "Llama4",
                "Llama 3.x",
            ),
        ];
        for (files, what, nearest) in cases {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in &files {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
            let found = said(folder.path());
            assert!(found.what.contains(what), "{files:?}: {found:?}");
            assert!(found.nearest.contains(nearest), "{files:?}: {found:?}");
        }
        let above = said(&golden(""));
        assert!(above.what.contains("has a model in"), "{above:?}");
    }

    #[test]
    fn an_adapter_says_what_it_is_and_whether_a_base_fits_it() {
        let path = golden("adapters/llama-odd-f16/all");
        let summary = LoraSummary::read(&path, &MappedFiles).unwrap().unwrap();
        assert_eq!(summary.kind.as_deref(), Some("LORA"));
        assert!(summary.rank.is_some() && summary.alpha.is_some());
        assert!(
            summary.targets.contains(&"q_proj".to_owned()),
            "{summary:?}"
        );
        assert!(summary.missing.is_empty());
        let fits = |base: &str| lora(&path, Some(&golden(base)), true).unwrap();
        assert!(fits("llama-odd-f16").is_ok());
        assert!(fits("qwen3-f16").is_err());
        assert!(fits("bert-f16").is_err());
        assert!(lora(&path, None, false).unwrap().is_ok());
        assert!(lora(&golden("llama-odd-f16"), None, false).is_none());
        // One of the two files.
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(
            path.join("adapter_model.safetensors"),
            folder.path().join("adapter_model.safetensors"),
        )
        .unwrap();
        let error = lora(folder.path(), None, false).unwrap().unwrap_err();
        let Failure::Run(error) = error else {
            panic!("{error:?}");
        };
        assert!(
            error
                .to_string()
                .contains("adapter_config.json is not there"),
            "{error}"
        );
    }
}
