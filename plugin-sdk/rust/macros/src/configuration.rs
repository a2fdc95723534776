//! `#[derive(Configuration)]`.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{
    Attribute, Data, DataEnum, DeriveInput, Error, Expr, ExprLit, ExprRange, ExprUnary, Field,
    Fields, Lit, LitStr, RangeLimits, Token, UnOp, meta::ParseNestedMeta, spanned::Spanned,
};

use crate::names::{documentation, kebab, plain};

pub(crate) fn derive(input: &DeriveInput) -> Result<Tokens, Error> {
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "a configuration has no parameters",
        ));
    }
    match &input.data {
        Data::Struct(table) => match &table.fields {
            Fields::Named(fields) => on_table(input, fields.named.iter()),
            Fields::Unit => on_table(input, [].iter()),
            Fields::Unnamed(_) => Err(Error::new(
                input.span(),
                "a configuration is a table: its fields have names",
            )),
        },
        Data::Enum(choice) => on_choice(input, choice),
        Data::Union(_) => Err(Error::new(input.span(), "a configuration is no union")),
    }
}

/// What stands in the `#[config(...)]` of a field or a variant.
#[derive(Default)]
struct Settings {
    name: Option<String>,
    default: Option<Tokens>,
    bounds: Vec<Tokens>,
}

impl Settings {
    fn read(attributes: &[Attribute]) -> Result<Settings, Error> {
        let mut settings = Settings::default();
        for attribute in attributes {
            if attribute.path().is_ident("config") {
                attribute.parse_nested_meta(|meta| settings.take(&meta))?;
            }
        }
        Ok(settings)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<(), Error> {
        if meta.path.is_ident("name") {
            let name: LitStr = meta.value()?.parse()?;
            self.name = Some(name.value());
        } else if meta.path.is_ident("default") {
            self.default = Some(match meta.input.peek(Token![=]) {
                false => quote!(::core::default::Default::default()),
                true => default(&meta.value()?.parse()?),
            });
        } else {
            self.bounds.push(bound(meta, true)?);
        }
        Ok(())
    }

    /// That a variant has nothing but a name.
    fn only_name(&self, place: &impl Spanned) -> Result<(), Error> {
        match self.default.is_some() || !self.bounds.is_empty() {
            true => Err(Error::new(place.span(), "a choice can only have a `name`")),
            false => Ok(()),
        }
    }
}

fn default(written: &Expr) -> Tokens {
    match written {
        // Text that becomes a `String`, or whatever else is made of text.
        Expr::Lit(ExprLit {
            lit: Lit::Str(_), ..
        }) => quote!(::core::convert::Into::into(#written)),
        _ => quote!(#written),
    }
}

/// One bound as a call on `Bounds`; `each` has bounds of its own, and stands on the outermost only.
fn bound(meta: &ParseNestedMeta<'_>, outermost: bool) -> Result<Tokens, Error> {
    if meta.path.is_ident("range") {
        let (from, to) = ends(&meta.value()?.parse()?)?;
        let from = from.map(|from| {
            let from = limit(&from);
            quote!(.from(#from))
        });
        let to = to.map(|to| {
            let to = limit(&to);
            quote!(.to(#to))
        });
        Ok(quote!(#from #to))
    } else if meta.path.is_ident("length") {
        let (from, to) = ends(&meta.value()?.parse()?)?;
        let from = from.map(|from| quote!(.shortest(#from)));
        let to = to.map(|to| quote!(.longest(#to)));
        Ok(quote!(#from #to))
    } else if outermost && meta.path.is_ident("each") {
        let mut bounds = Vec::new();
        meta.parse_nested_meta(|meta| {
            bounds.push(bound(&meta, false)?);
            Ok(())
        })?;
        Ok(quote!(.each(::tidegate_sdk::config::Bounds::new() #(#bounds)*)))
    } else if outermost {
        Err(meta.error("unknown argument: name, default, range, length, each"))
    } else {
        Err(meta.error("unknown argument: range, length"))
    }
}

/// The ends of a range that includes them.
fn ends(range: &ExprRange) -> Result<(Option<Expr>, Option<Expr>), Error> {
    let inclusive = matches!(range.limits, RangeLimits::Closed(_));
    if range.end.is_some() && !inclusive {
        return Err(Error::new(
            range.span(),
            "bounds belong to their range: `1..=9`, `1..` or `..=9`",
        ));
    }
    let end = |end: &Option<Box<Expr>>| end.as_deref().cloned();
    Ok((end(&range.start), end(&range.end)))
}

/// The end of a range of numbers.
fn limit(end: &Expr) -> Tokens {
    let magnitude = match end {
        Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr,
            ..
        }) => expr,
        other => other,
    };
    match magnitude {
        // A literal is whatever type the limit has; a constant has one already.
        Expr::Lit(ExprLit {
            lit: Lit::Int(_), ..
        }) => quote!(::tidegate_sdk::config::Limit::Whole(#end)),
        _ => quote!(::tidegate_sdk::config::Limit::from(#end)),
    }
}

fn on_table<'a>(
    input: &DeriveInput,
    fields: impl Iterator<Item = &'a Field>,
) -> Result<Tokens, Error> {
    let mut keys: Vec<String> = Vec::new();
    let (mut described, mut read, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields {
        let Some(name) = &field.ident else { continue };
        let settings = Settings::read(&field.attrs)?;
        let key = settings.name.unwrap_or_else(|| plain(name));
        if keys.contains(&key) {
            return Err(Error::new(
                field.span(),
                format!("two keys are called {key:?}"),
            ));
        }
        let (ty, bounds) = (&field.ty, settings.bounds);
        let documentation = documentation(&field.attrs);
        let bounds = quote!(::tidegate_sdk::config::Bounds::new() #(#bounds)*);
        let default = match settings.default {
            Some(default) => quote!(::core::option::Option::<fn() -> #ty>::Some(|| #default)),
            None => quote!(::core::option::Option::<fn() -> #ty>::None),
        };
        described.push(quote! {
            table.key::<#ty>(#key, #documentation, &(#bounds), #default);
        });
        read.push(quote! {
            #name: table.take::<#ty>(#key, &(#bounds), #default)?
        });
        shown.push(quote!((#key, ::tidegate_sdk::Configuration::show(&self.#name))));
        keys.push(key);
    }
    let (table, documentation) = (&input.ident, documentation(&input.attrs));
    Ok(quote! {
        impl ::tidegate_sdk::Configuration for #table {
            fn schema() -> ::tidegate_sdk::serde_json::Value {
                #[allow(unused_mut)]
                let mut table = ::tidegate_sdk::config::TableSchema::new(#documentation);
                #(#described)*
                table.finish()
            }

            fn read(
                json: &::tidegate_sdk::serde_json::Value,
                place: &::tidegate_sdk::config::Place<'_>,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                #[allow(unused_variables)]
                let table = ::tidegate_sdk::config::Table::read(json, place, &[#(#keys),*])?;
                ::core::result::Result::Ok(#table { #(#read),* })
            }

            fn show(&self) -> ::tidegate_sdk::serde_json::Value {
                ::tidegate_sdk::config::show_table([#(#shown),*])
            }
        }
    })
}

fn on_choice(input: &DeriveInput, choice: &DataEnum) -> Result<Tokens, Error> {
    let (mut variants, mut names, mut documentations) = (Vec::new(), Vec::new(), Vec::new());
    for variant in &choice.variants {
        if !variant.fields.is_empty() {
            return Err(Error::new(
                variant.span(),
                "a choice has no fields; a type of its own can implement `Configuration`",
            ));
        }
        let settings = Settings::read(&variant.attrs)?;
        settings.only_name(variant)?;
        let name = settings.name.unwrap_or_else(|| kebab(&variant.ident));
        if names.contains(&name) {
            return Err(Error::new(
                variant.span(),
                format!("two choices are called {name:?}"),
            ));
        }
        variants.push(&variant.ident);
        names.push(name);
        documentations.push(documentation(&variant.attrs));
    }
    let (choice, documentation) = (&input.ident, documentation(&input.attrs));
    Ok(quote! {
        impl ::tidegate_sdk::Configuration for #choice {
            fn schema() -> ::tidegate_sdk::serde_json::Value {
                ::tidegate_sdk::config::choice_schema(#documentation, &[#((#names, #documentations)),*])
            }

            fn read(
                json: &::tidegate_sdk::serde_json::Value,
                place: &::tidegate_sdk::config::Place<'_>,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                ::core::result::Result::Ok(match ::tidegate_sdk::config::choose(json, place, &[#(#names),*])? {
                    #(#names => #choice::#variants,)*
                    _ => return ::core::result::Result::Err(place.wrong(json, "one of its choices")),
                })
            }

            fn show(&self) -> ::tidegate_sdk::serde_json::Value {
                ::tidegate_sdk::serde_json::Value::from(match self {
                    #(#choice::#variants => #names,)*
                })
            }
        }
    })
}
