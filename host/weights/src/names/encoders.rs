//! The names that the transformers library and the makers of encoders give to tensors (`modeling_*.py` of each family).

use super::huggingface::number_after;
use super::{DecoderTensor, EncoderLayerTensor as Part, EncoderTensor, LayerTensor};
use crate::config::{EncoderConfig, EncoderFamily as Family};

/// What the name of a table of words may begin with, by the name of the table below it.
pub(crate) fn encoder_prefixes(family: Family) -> (&'static [&'static str], &'static str) {
    match family {
        Family::Bert => (&["", "bert."], "embeddings.word_embeddings.weight"),
        Family::Roberta => (&["", "roberta."], "embeddings.word_embeddings.weight"),
        Family::DistilBert => (&["", "distilbert."], "embeddings.word_embeddings.weight"),
        Family::ModernBert => (&["", "model."], "embeddings.tok_embeddings.weight"),
        Family::NomicBert => (
            &["", "nomic_bert.", "bert."],
            "embeddings.word_embeddings.weight",
        ),
    }
}

/// The name of an encoder's tensor below `prefix`.
pub(crate) fn encoder_name(
    family: Family,
    prefix: &str,
    config: &EncoderConfig,
    tensor: EncoderTensor,
) -> String {
    let of_tokens = config.head.is_of_tokens();
    let of_head = |[bert, roberta, distilbert, modernbert]: [&str; 4]| match family {
        // BERT's head is its pooler and a linear layer.
        Family::Bert | Family::NomicBert if bert.starts_with("pooler") => format!("{prefix}{bert}"),
        Family::Bert | Family::NomicBert => bert.to_owned(),
        Family::Roberta => roberta.to_owned(),
        Family::DistilBert => distilbert.to_owned(),
        Family::ModernBert => modernbert.to_owned(),
    };
    let name = match tensor {
        EncoderTensor::Words if family == Family::ModernBert => "embeddings.tok_embeddings.weight",
        EncoderTensor::Words => "embeddings.word_embeddings.weight",
        EncoderTensor::Positions => "embeddings.position_embeddings.weight",
        EncoderTensor::Types => "embeddings.token_type_embeddings.weight",
        EncoderTensor::Norm => match family {
            Family::ModernBert => "embeddings.norm.weight",
            Family::NomicBert => "emb_ln.weight",
            _ => "embeddings.LayerNorm.weight",
        },
        EncoderTensor::NormBias => match family {
            Family::ModernBert => "embeddings.norm.bias",
            Family::NomicBert => "emb_ln.bias",
            _ => "embeddings.LayerNorm.bias",
        },
        EncoderTensor::FinalNorm => "final_norm.weight",
        EncoderTensor::FinalNormBias => "final_norm.bias",
        EncoderTensor::HeadDense => {
            return of_head([
                "pooler.dense.weight",
                "classifier.dense.weight",
                "pre_classifier.weight",
                "head.dense.weight",
            ]);
        }
        EncoderTensor::HeadDenseBias => {
            return of_head([
                "pooler.dense.bias",
                "classifier.dense.bias",
                "pre_classifier.bias",
                "head.dense.bias",
            ]);
        }
        EncoderTensor::HeadNorm => return "head.norm.weight".to_owned(),
        EncoderTensor::HeadNormBias => return "head.norm.bias".to_owned(),
        // Where nothing stands before it, every family has it by one name.
        EncoderTensor::HeadOutput if of_tokens => return "classifier.weight".to_owned(),
        EncoderTensor::HeadOutputBias if of_tokens => return "classifier.bias".to_owned(),
        EncoderTensor::HeadOutput => {
            let plain = "classifier.weight";
            return of_head([plain, "classifier.out_proj.weight", plain, plain]);
        }
        EncoderTensor::HeadOutputBias => {
            let plain = "classifier.bias";
            return of_head([plain, "classifier.out_proj.bias", plain, plain]);
        }
        EncoderTensor::Layer(layer, part) => {
            let layers = layers(family);
            let part = match family {
                Family::Bert | Family::Roberta => bert(part),
                Family::DistilBert => distilbert(part),
                Family::ModernBert => modernbert(part),
                Family::NomicBert => nomic_bert(part),
            };
            return format!("{prefix}{layers}{layer}.{part}");
        }
    };
    format!("{prefix}{name}")
}

/// What stands before the number of a layer.
fn layers(family: Family) -> &'static str {
    match family {
        Family::Bert | Family::Roberta => "encoder.layer.",
        Family::DistilBert => "transformer.layer.",
        Family::ModernBert => "layers.",
        Family::NomicBert => "encoder.layers.",
    }
}

fn bert(part: Part) -> &'static str {
    match part {
        Part::Query => "attention.self.query.weight",
        Part::QueryBias => "attention.self.query.bias",
        Part::Key => "attention.self.key.weight",
        Part::KeyBias => "attention.self.key.bias",
        Part::Value => "attention.self.value.weight",
        Part::ValueBias => "attention.self.value.bias",
        Part::Output => "attention.output.dense.weight",
        Part::OutputBias => "attention.output.dense.bias",
        Part::OutputNorm => "attention.output.LayerNorm.weight",
        Part::OutputNormBias => "attention.output.LayerNorm.bias",
        Part::Up => "intermediate.dense.weight",
        Part::UpBias => "intermediate.dense.bias",
        Part::Down => "output.dense.weight",
        Part::DownBias => "output.dense.bias",
        Part::DownNorm => "output.LayerNorm.weight",
        Part::DownNormBias => "output.LayerNorm.bias",
        other => of_none(other),
    }
}

fn distilbert(part: Part) -> &'static str {
    match part {
        Part::Query => "attention.q_lin.weight",
        Part::QueryBias => "attention.q_lin.bias",
        Part::Key => "attention.k_lin.weight",
        Part::KeyBias => "attention.k_lin.bias",
        Part::Value => "attention.v_lin.weight",
        Part::ValueBias => "attention.v_lin.bias",
        Part::Output => "attention.out_lin.weight",
        Part::OutputBias => "attention.out_lin.bias",
        Part::OutputNorm => "sa_layer_norm.weight",
        Part::OutputNormBias => "sa_layer_norm.bias",
        Part::Up => "ffn.lin1.weight",
        Part::UpBias => "ffn.lin1.bias",
        Part::Down => "ffn.lin2.weight",
        Part::DownBias => "ffn.lin2.bias",
        Part::DownNorm => "output_layer_norm.weight",
        Part::DownNormBias => "output_layer_norm.bias",
        other => of_none(other),
    }
}

/// Queries, keys and values are one tensor, and so are gate and up.
fn modernbert(part: Part) -> &'static str {
    match part {
        Part::AttentionNorm => "attn_norm.weight",
        Part::AttentionNormBias => "attn_norm.bias",
        Part::Query | Part::Key | Part::Value => "attn.Wqkv.weight",
        Part::Output => "attn.Wo.weight",
        Part::UpNorm => "mlp_norm.weight",
        Part::UpNormBias => "mlp_norm.bias",
        Part::Gate | Part::Up => "mlp.Wi.weight",
        Part::Down => "mlp.Wo.weight",
        other => of_none(other),
    }
}

/// As its maker publishes it: queries, keys and values are one tensor.
fn nomic_bert(part: Part) -> &'static str {
    match part {
        Part::Query | Part::Key | Part::Value => "attn.Wqkv.weight",
        Part::Output => "attn.out_proj.weight",
        Part::OutputNorm => "norm1.weight",
        Part::OutputNormBias => "norm1.bias",
        // Both are as wide; the activation is over the second.
        Part::Gate => "mlp.fc12.weight",
        Part::Up => "mlp.fc11.weight",
        Part::Down => "mlp.fc2.weight",
        Part::DownNorm => "norm2.weight",
        Part::DownNormBias => "norm2.bias",
        other => of_none(other),
    }
}

/// A part that the family does not have: no file has a tensor of this name.
fn of_none(part: Part) -> &'static str {
    match part {
        Part::Gate => "gate",
        _ => "none",
    }
}

/// The tensor of a decoder that one of an encoder is which is stored as a decoder; none that no decoder has.
pub(crate) fn of_decoder(tensor: EncoderTensor) -> Option<DecoderTensor> {
    let (layer, part) = match tensor {
        EncoderTensor::Words => return Some(DecoderTensor::Embedding),
        EncoderTensor::FinalNorm => return Some(DecoderTensor::FinalNorm),
        EncoderTensor::Layer(layer, part) => (layer, part),
        _ => return None,
    };
    let part = match part {
        Part::AttentionNorm => LayerTensor::AttentionNorm,
        Part::Query => LayerTensor::Query,
        Part::QueryBias => LayerTensor::QueryBias,
        Part::Key => LayerTensor::Key,
        Part::KeyBias => LayerTensor::KeyBias,
        Part::Value => LayerTensor::Value,
        Part::ValueBias => LayerTensor::ValueBias,
        Part::QueryNorm => LayerTensor::QueryNorm,
        Part::KeyNorm => LayerTensor::KeyNorm,
        Part::Output => LayerTensor::Output,
        Part::OutputBias => LayerTensor::OutputBias,
        Part::UpNorm => LayerTensor::MlpNorm,
        Part::Gate => LayerTensor::Gate,
        Part::Up => LayerTensor::Up,
        Part::Down => LayerTensor::Down,
        _ => return None,
    };
    Some(DecoderTensor::Layer(layer, part))
}

/// Which rows of a tensor a part is, where its tensor holds several: all rows, and the first of the part.
pub(crate) fn encoder_rows(
    family: Family,
    config: &EncoderConfig,
    tensor: EncoderTensor,
) -> Option<(usize, usize)> {
    let EncoderTensor::Layer(_, part) = tensor else {
        return None;
    };
    let (hidden, intermediate) = (config.hidden, config.intermediate);
    match (family, part) {
        (Family::ModernBert | Family::NomicBert, Part::Query) => Some((3 * hidden, 0)),
        (Family::ModernBert | Family::NomicBert, Part::Key) => Some((3 * hidden, hidden)),
        (Family::ModernBert | Family::NomicBert, Part::Value) => Some((3 * hidden, 2 * hidden)),
        (Family::ModernBert, Part::Gate) => Some((2 * intermediate, 0)),
        (Family::ModernBert, Part::Up) => Some((2 * intermediate, intermediate)),
        _ => None,
    }
}

/// What the first BERT models call a tensor of a norm (transformers renames them as it loads: `LayerNorm.gamma`,
/// `LayerNorm.beta`); none if it belongs to no norm.
pub(crate) fn old_norm_name(name: &str) -> Option<String> {
    let (norm, part) = name
        .rsplit_once('.')
        .filter(|(norm, _)| norm.ends_with("LayerNorm"))?;
    match part {
        "weight" => Some(format!("{norm}.gamma")),
        "bias" => Some(format!("{norm}.beta")),
        _ => None,
    }
}

/// The layer that a tensor of this name belongs to; none if it belongs to no layer.
pub(crate) fn encoder_layer_of(family: Family, prefix: &str, name: &str) -> Option<usize> {
    number_after(name.strip_prefix(prefix)?, layers(family))
}
