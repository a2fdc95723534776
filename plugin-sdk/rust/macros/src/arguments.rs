//! The arguments of `#[operator(...)]`, read and checked.

use syn::{
    Error, Expr, Ident, LitStr, Token, bracketed,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

/// What stands in the parentheses of `#[operator(...)]`.
pub(crate) struct Arguments {
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<Expr>,
    pub(crate) reads: Vec<LitStr>,
    pub(crate) metrics: Vec<Expr>,
    /// A variant of `tidegate_sdk::Panics`.
    pub(crate) panics: &'static str,
    /// Whether it handles tokens.
    pub(crate) tokens: bool,
}

/// What `panics` may be, and the variant of `tidegate_sdk::Panics` that it is.
const PANICS: [(&str, &str); 3] = [
    ("stderr", "StandardError"),
    ("log", "Log"),
    ("trap", "Trap"),
];

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Arguments, Error> {
        let mut arguments = Arguments {
            name: None,
            version: None,
            reads: Vec::new(),
            metrics: Vec::new(),
            panics: PANICS[0].1,
            tokens: false,
        };
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            if key == "tokens" {
                arguments.tokens = true;
            } else {
                input.parse::<Token![=]>()?;
                arguments.take(&key, input)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

impl Arguments {
    fn take(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<(), Error> {
        match key.to_string().as_str() {
            "name" => {
                let name: LitStr = input.parse()?;
                kebab_case(&name, "a name")?;
                self.name = Some(name);
            }
            "version" => self.version = Some(input.parse()?),
            "reads" => {
                self.reads = strings(input)?;
                for field in &self.reads {
                    let value = field.value();
                    if !["key", "value", "headers", "attributes"].contains(&value.as_str()) {
                        return Err(Error::new(
                            field.span(),
                            format!(
                                "`{value}` is no field of a record: key, value, headers, attributes"
                            ),
                        ));
                    }
                }
            }
            "metrics" => {
                let list;
                bracketed!(list in input);
                let metrics = Punctuated::<Expr, Token![,]>::parse_terminated(&list)?;
                self.metrics = metrics.into_iter().collect();
            }
            "panics" => {
                let value: LitStr = input.parse()?;
                let known = PANICS.iter().find(|(name, _)| *name == value.value());
                let Some((_, variant)) = known else {
                    return Err(Error::new(
                        value.span(),
                        "`panics` can only be \"stderr\", \"log\" or \"trap\"",
                    ));
                };
                self.panics = variant;
            }
            other => {
                return Err(Error::new(
                    key.span(),
                    format!(
                        "unknown argument `{other}`: name, version, reads, metrics, panics, tokens"
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// One string, or a list of strings in brackets.
fn strings(input: ParseStream<'_>) -> Result<Vec<LitStr>, Error> {
    if input.peek(LitStr) {
        return Ok(vec![input.parse()?]);
    }
    let list;
    bracketed!(list in input);
    let items = Punctuated::<LitStr, Token![,]>::parse_terminated_with(&list, |item| item.parse())?;
    Ok(items.into_iter().collect())
}

/// That a name is written as names of operators and outputs are.
pub(crate) fn kebab_case(text: &LitStr, what: &str) -> Result<(), Error> {
    let value = text.value();
    let first = value
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase());
    let rest = value
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if first && rest {
        Ok(())
    } else {
        Err(Error::new(
            text.span(),
            format!("{what} has the form `[a-z][a-z0-9-]*`, found {value:?}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        match syn::parse_str::<Arguments>(text) {
            Ok(_) => panic!("{text} was taken"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn arguments_are_read() {
        let read = |text: &str| match syn::parse_str::<Arguments>(text) {
            Ok(arguments) => arguments,
            Err(error) => panic!("{text}: {error}"),
        };
        let full =
            read(r#"name = "a-b", version = "1", reads = ["key", "value"], panics = "log","#);
        assert_eq!(full.name.map(|name| name.value()).as_deref(), Some("a-b"));
        assert_eq!((full.reads.len(), full.panics), (2, "Log"));
        assert!(!full.tokens);
        assert!(read(r#"name = "a-b", tokens, panics = "log""#).tokens);
        let empty = read("");
        assert!(empty.reads.is_empty() && empty.panics == "StandardError");
    }

    #[test]
    fn mistakes_are_named() {
        assert!(error(r#"read = "key""#).contains("unknown argument `read`: name, version, reads"));
        assert!(
            error(r#"reads = "values""#).contains("`values` is no field of a record: key, value")
        );
        assert!(error("tokens = true").contains("expected `,`"));
        assert!(error(r#"name = "Keep It""#).contains("found \"Keep It\""));
        assert!(error(r#"outputs = ["a"]"#).contains("unknown argument `outputs`"));
        assert!(
            error(r#"panics = "print""#).contains("can only be \"stderr\", \"log\" or \"trap\"")
        );
    }
}
