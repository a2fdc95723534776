//! Biases of tokens by their number, of a stage that further models answer under load: a number must be the same token in
//! all of them.

use tidegate_control::config::{Ask, BiasedToken, Mistake, ModelStage, Pipeline, StageKind};

use super::ModelFile;

/// The numbers that mean other tokens in another model of their stage: where the models are those of the pipeline file, or
/// with these files in the place of one of them. What cannot be opened is another's mistake.
pub(super) fn mistakes(pipeline: &Pipeline, changed: Option<(usize, &ModelFile)>) -> Vec<Mistake> {
    let mut found = Vec::new();
    for stage in &pipeline.stages {
        let StageKind::Model(kind) = &stage.kind else {
            continue;
        };
        let ids = numbers(kind);
        let asked = || std::iter::once(&kind.model).chain(&kind.alternatives);
        let is_concerned =
            changed.is_none_or(|(index, _)| asked().any(|of| is_of(pipeline, *of, index)));
        if ids.is_empty() || kind.alternatives.is_empty() || !is_concerned {
            continue;
        }
        let own = Tokens::of(pipeline, kind.model, changed);
        for other in &kind.alternatives {
            let others = Tokens::of(pipeline, *other, changed);
            let [own_name, name] = [kind.model, *other].map(|index| &pipeline.models[index].name);
            let what = match (&own, &others) {
                (Tokens::Unread, _) | (_, Tokens::Unread) => None,
                (Tokens::Elsewhere, _) | (_, Tokens::Elsewhere) => Some(format!(
                    "logit-bias: token {} may be another in model {name:?}, which answers under load, than in model \
                     {own_name:?}: what tokens another server's model has is not known",
                    ids[0]
                )),
                (Tokens::Here(own), Tokens::Here(others)) => {
                    let differs = ids.iter().find(|id| own.token(**id) != others.token(**id));
                    differs.map(|id| {
                        format!(
                            "logit-bias: token {id} is {} in model {own_name:?}, and {} in model {name:?}, which answers \
                             under load; write tokens by their text",
                            own.shown(*id),
                            others.shown(*id)
                        )
                    })
                }
            };
            found.extend(what.map(|what| pipeline.mistake_of_stage(stage, what)));
        }
    }
    found
}

/// Whether a model is this one, or is made of it by an adapter.
fn is_of(pipeline: &Pipeline, model: usize, base: usize) -> bool {
    let lora = pipeline.models.get(model).and_then(|of| of.lora.as_ref());
    model == base || lora.is_some_and(|lora| lora.base == base)
}

fn numbers(kind: &ModelStage) -> Vec<u32> {
    let Ask::Generate(generate) = &kind.ask else {
        return Vec::new();
    };
    let ids = generate.bias.iter().filter_map(|(token, _)| match token {
        BiasedToken::Id(id) => Some(*id),
        BiasedToken::Text(_) => None,
    });
    ids.collect()
}

/// The tokens of a model.
enum Tokens<'f> {
    Here(Known<'f>),
    /// Another server has it.
    Elsewhere,
    /// Its files cannot be opened.
    Unread,
}

enum Known<'f> {
    Given(&'f ModelFile),
    Opened(Box<ModelFile>),
}

impl<'f> Tokens<'f> {
    fn of(pipeline: &Pipeline, index: usize, changed: Option<(usize, &'f ModelFile)>) -> Self {
        let model = &pipeline.models[index];
        match changed.filter(|(of, _)| is_of(pipeline, index, *of)) {
            Some((_, file)) => Tokens::Here(Known::Given(file)),
            None if model.remote.is_some() => Tokens::Elsewhere,
            None => match ModelFile::of(model) {
                Ok(file) => Tokens::Here(Known::Opened(Box::new(file))),
                Err(_) => Tokens::Unread,
            },
        }
    }
}

impl Known<'_> {
    fn file(&self) -> &ModelFile {
        match self {
            Known::Given(file) => file,
            Known::Opened(file) => file,
        }
    }

    fn token(&self, id: u32) -> Option<(String, Option<Vec<u8>>)> {
        let tokenizer = &self.file().tokenizer;
        Some((tokenizer.token_name(id)?, tokenizer.token_bytes(id)))
    }

    fn shown(&self, id: u32) -> String {
        match self.token(id) {
            Some((_, Some(bytes))) => format!("{:?}", String::from_utf8_lossy(&bytes)),
            Some((name, None)) => format!("{name:?}"),
            None => "none".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use tidegate_control::config;

    use super::super::Splits;
    use super::*;

    const MODEL: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/support-bot/model"
    );

    /// The same model with two tokens in each other's place.
    fn exchanged(directory: &Path) {
        fs::create_dir(directory).unwrap();
        for entry in fs::read_dir(MODEL).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
        }
        let path = directory.join("tokenizer.json");
        let mut tokenizer: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
        let [first, second] = ["Ġt", "er"].map(|token| vocabulary[token].clone());
        vocabulary["Ġt"] = second;
        vocabulary["er"] = first;
        fs::write(&path, tokenizer.to_string()).unwrap();
    }

    fn pipeline(directory: &Path, small: &str, bias: &str) -> Pipeline {
        let file = format!(
            "[pipeline]\nname = \"front\"\n[gateway]\n[source.chat]\ntype = \"gateway\"\n\
             [[source.chat.under-load]]\nwaiting = 5\nmodel = \"small\"\n\
             [model.support]\npath = {MODEL:?}\n[model.small]\n{small}\n\
             [[stage]]\nname = \"answer\"\nmodel = \"support\"\nmessages = true\nlogit-bias = [{bias}]\n\
             [sink.reply]\ntype = \"gateway\"\n"
        );
        let path = directory.join("pipeline.toml");
        fs::write(&path, file).unwrap();
        config::load(&path).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    #[test]
    fn a_number_of_a_token_is_the_same_token_in_every_model_of_a_stage() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other");
        exchanged(&other);
        let said = |small: &str, bias: &str| {
            let pipeline = pipeline(directory.path(), small, bias);
            let found = mistakes(&pipeline, None).into_iter();
            found.map(|mistake| mistake.what).collect::<Vec<_>>()
        };
        let (same, other) = (format!("path = {MODEL:?}"), format!("path = {other:?}"));
        let far = "type = \"openai\"\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"x\"";
        let number = "{ id = 262, bias = -100.0 }";
        assert_eq!(said(&same, number), [""; 0]);
        assert_eq!(said(&other, "{ id = 264, bias = 1.0 }"), [""; 0]);
        assert_eq!(said(&other, "{ text = \" t\", bias = 1.0 }"), [""; 0]);
        let wrong = said(&other, number);
        assert_eq!(wrong.len(), 1);
        assert!(
            wrong[0].contains(
                "token 262 is \" t\" in model \"support\", and \"er\" in model \"small\""
            ),
            "{wrong:?}"
        );
        assert!(said(far, number)[0].contains("is not known"));
    }

    #[test]
    fn a_model_that_is_loaded_in_the_place_of_another_keeps_to_the_numbers_of_its_stages() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other");
        exchanged(&other);
        let same = format!("path = {MODEL:?}");
        let pipeline = pipeline(directory.path(), &same, "{ id = 262, bias = -100.0 }");
        let (same, other) = (
            ModelFile::open(Path::new(MODEL), Splits::Named(None)),
            ModelFile::open(&other, Splits::Named(None)),
        );
        let (same, other) = (same.unwrap(), other.unwrap());
        for index in [0, 1] {
            assert_eq!(mistakes(&pipeline, Some((index, &same))), []);
            assert_eq!(mistakes(&pipeline, Some((index, &other))).len(), 1);
        }
    }
    #[test]
    fn a_base_keeps_to_the_numbers_of_stages_that_ask_its_adapters() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other");
        exchanged(&other);
        let polite = directory.path().join("polite");
        fs::create_dir(&polite).unwrap();
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            fs::write(polite.join(file), "{}").unwrap();
        }
        let small = format!(
            "path = {MODEL:?}\n[model.polite]\ntype = \"lora\"\nbase = \"support\"\npath = \"polite\""
        );
        let mut pipeline = pipeline(directory.path(), &small, "{ id = 262, bias = -100.0 }");
        let index = |name: &str| pipeline.models.iter().position(|model| model.name == name);
        let [base, adapted] = ["support", "polite"].map(|name| index(name).unwrap());
        for stage in &mut pipeline.stages {
            if let StageKind::Model(kind) = &mut stage.kind {
                kind.model = adapted;
            }
        }
        let open = |path: &Path| ModelFile::open(path, Splits::Named(None)).unwrap();
        let (same, other) = (open(Path::new(MODEL)), open(&other));
        assert_eq!(mistakes(&pipeline, Some((base, &same))), []);
        assert_eq!(mistakes(&pipeline, Some((base, &other))).len(), 1);
    }
}
