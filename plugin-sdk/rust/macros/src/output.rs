//! `#[derive(Output)]`.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{Data, DeriveInput, Error, LitStr, spanned::Spanned};

use crate::arguments::kebab_case;
use crate::names::kebab;

pub(crate) fn derive(input: &DeriveInput) -> Result<Tokens, Error> {
    let Data::Enum(outputs) = &input.data else {
        return Err(Error::new(
            input.span(),
            "outputs are the variants of an enum: `enum Side { Left, Right }`",
        ));
    };
    let mut variants = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for variant in &outputs.variants {
        if !variant.fields.is_empty() {
            return Err(Error::new(
                variant.span(),
                "an output has no fields: a configuration that names outputs uses `OutputName`",
            ));
        }
        let mut name = kebab(&variant.ident);
        for attribute in &variant.attrs {
            if attribute.path().is_ident("output") {
                attribute.parse_nested_meta(|meta| {
                    if !meta.path.is_ident("name") {
                        return Err(meta.error("unknown argument: name"));
                    }
                    let written: LitStr = meta.value()?.parse()?;
                    kebab_case(&written, "an output")?;
                    name = written.value();
                    Ok(())
                })?;
            }
        }
        if names.contains(&name) {
            return Err(Error::new(
                variant.span(),
                format!("two outputs are called {name:?}"),
            ));
        }
        variants.push(&variant.ident);
        names.push(name);
    }
    let outputs = &input.ident;
    Ok(quote! {
        impl ::tidegate_sdk::Output for #outputs {
            fn all() -> ::std::vec::Vec<Self> {
                ::std::vec![#(#outputs::#variants),*]
            }

            fn name(&self) -> &str {
                match *self {
                    #(#outputs::#variants => #names,)*
                }
            }
        }
    })
}
