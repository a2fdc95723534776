//! Names and descriptions taken from the code.

use syn::{Attribute, Expr, ExprLit, Ident, Lit, Meta};

/// The text of the documentation comment, its lines joined.
pub(crate) fn documentation(attributes: &[Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes {
        let Meta::NameValue(pair) = &attribute.meta else {
            continue;
        };
        let Expr::Lit(ExprLit {
            lit: Lit::Str(line),
            ..
        }) = &pair.value
        else {
            continue;
        };
        if !attribute.path().is_ident("doc") {
            continue;
        }
        match line.value().trim() {
            "" => text.push('\n'),
            line => {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push(' ');
                }
                text.push_str(line);
            }
        }
    }
    text.trim().to_owned()
}

/// `DeadLetter` as `dead-letter`.
pub(crate) fn kebab(name: &Ident) -> String {
    let mut kebab = String::new();
    for letter in plain(name).chars() {
        if letter.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(letter.to_lowercase());
    }
    kebab
}

/// A name without the sign of a raw identifier.
pub(crate) fn plain(name: &Ident) -> String {
    let name = name.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}

/// `keep_paid` as `KeepPaid`.
pub(crate) fn upper_camel(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .into_iter()
                .flat_map(char::to_uppercase)
                .chain(letters)
                .collect::<Vec<char>>()
        })
        .collect()
}
