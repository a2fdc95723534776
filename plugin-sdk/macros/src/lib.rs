//! The `#[operator]` attribute of the Tidegate SDK.
//!
//! It knows only syntax: it turns one annotated function or `impl Operator` block into a described, exported operator.
//! What an operator is, and how it runs, stands in `tidegate-sdk`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod arguments;

use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as Tokens};
use quote::quote;
use syn::{Error, FnArg, Ident, Item, ItemFn, ItemImpl, Type, parse_macro_input, spanned::Spanned};

use arguments::Arguments;

/// Makes an operator of a function over a record, or of an `impl Operator` block.
///
/// Arguments, all optional: `name` and `version` (the crate's by default), `reads` (one of, or a list of, `"key"`,
/// `"value"`, `"headers"`, `"attributes"`; all by default; the others are not copied to the operator), `outputs` (names
/// of the outputs beside the main one), `metrics` (a list of constants of `tidegate_sdk::metrics`), `panics = "log"` (the text of a panic goes to the host's log, which then has to
/// be granted) and, on a function, `schema` (JSON Schema of its configuration).
///
/// A function `keep_paid` becomes the operator type `KeepPaid`. Its second parameter, if it has one, is a reference to
/// its configuration, any `serde::Deserialize` type. It returns an `Outcome` or anything that becomes one: `bool` (pass
/// or drop), `Changes`, or a `Result` of these whose error goes to the dead letters.
#[proc_macro_attribute]
pub fn operator(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as Arguments);
    let item = parse_macro_input!(item as Item);
    let expanded = match item {
        Item::Fn(function) => on_function(&arguments, &function),
        Item::Impl(block) => on_impl(&arguments, &block),
        other => Err(Error::new(
            other.span(),
            "`#[operator]` stands on a function over a record or on an `impl Operator for ...` block",
        )),
    };
    expanded.unwrap_or_else(Error::into_compile_error).into()
}

fn on_impl(arguments: &Arguments, block: &ItemImpl) -> Result<Tokens, Error> {
    if block.trait_.is_none() {
        return Err(Error::new(
            block.span(),
            "`#[operator]` stands on `impl Operator for ...`, not on an inherent `impl`",
        ));
    }
    if let Some(schema) = &arguments.schema {
        return Err(Error::new(
            schema.span(),
            "an `impl Operator` gives its schema as `const CONFIG_SCHEMA`",
        ));
    }
    let described = described(arguments, &block.self_ty);
    Ok(quote! { #block #described })
}

fn on_function(arguments: &Arguments, function: &ItemFn) -> Result<Tokens, Error> {
    let signature = &function.sig;
    let name = &signature.ident;
    let visibility = &function.vis;
    let type_name = Ident::new(&upper_camel(&name.to_string()), name.span());
    let mut inputs = signature.inputs.iter();
    if inputs.next().is_none() {
        return Err(Error::new(
            signature.span(),
            "an operator takes a record: `fn name(record: &Record) -> Outcome`",
        ));
    }
    let config = inputs.next();
    if let Some(third) = inputs.next() {
        return Err(Error::new(
            third.span(),
            "an operator takes a record and, at most, its configuration",
        ));
    }
    let (config_type, call) = match config {
        None => (quote!(::tidegate_sdk::NoConfig), quote!(#name(record))),
        Some(FnArg::Typed(config)) => match &*config.ty {
            Type::Reference(reference) => {
                let inner = &reference.elem;
                (quote!(#inner), quote!(#name(record, &self.0)))
            }
            other => {
                return Err(Error::new(
                    other.span(),
                    "the configuration is taken by reference: `config: &Config`",
                ));
            }
        },
        Some(receiver) => {
            return Err(Error::new(
                receiver.span(),
                "an operator function has no `self`",
            ));
        }
    };
    let schema = match (&arguments.schema, config) {
        (Some(schema), _) => quote!(const CONFIG_SCHEMA: &'static str = #schema;),
        (None, None) => {
            quote!(
                const CONFIG_SCHEMA: &'static str = ::tidegate_sdk::NoConfig::SCHEMA;
            )
        }
        (None, Some(_)) => Tokens::new(),
    };
    let documentation = format!("The operator made of [`{name}`].");
    let self_type = syn::parse_quote!(#type_name);
    let described = described(arguments, &self_type);
    Ok(quote! {
        #function

        #[doc = #documentation]
        #visibility struct #type_name(#[allow(dead_code)] #config_type);

        impl ::tidegate_sdk::Operator for #type_name {
            type Config = #config_type;
            #schema

            fn new(config: Self::Config) -> ::core::result::Result<Self, ::std::string::String> {
                ::core::result::Result::Ok(#type_name(config))
            }

            #[inline]
            fn process(&mut self, record: &::tidegate_sdk::Record<'_>) -> ::tidegate_sdk::Outcome {
                ::tidegate_sdk::IntoOutcome::into_outcome(#call)
            }
        }

        #described
    })
}

fn described(arguments: &Arguments, self_type: &Type) -> Tokens {
    let name = match &arguments.name {
        Some(name) => quote!(#name),
        None => quote!(env!("CARGO_PKG_NAME")),
    };
    let version = match &arguments.version {
        Some(version) => quote!(#version),
        None => quote!(env!("CARGO_PKG_VERSION")),
    };
    let reads = if arguments.reads.is_empty() {
        quote!(::tidegate_sdk::Fields::ALL)
    } else {
        let fields = arguments.reads.iter().map(|field| {
            let constant = Ident::new(&field.value().to_uppercase(), Span::call_site());
            quote!(.and(::tidegate_sdk::Fields::#constant))
        });
        quote!(::tidegate_sdk::Fields::NONE #(#fields)*)
    };
    let outputs = &arguments.outputs;
    let metrics = &arguments.metrics;
    let log_panics = arguments.log_panics;
    quote! {
        impl ::tidegate_sdk::Described for #self_type {
            const DESCRIPTION: ::tidegate_sdk::Description = ::tidegate_sdk::Description {
                name: #name,
                version: #version,
                reads: #reads,
                outputs: &[#(#outputs),*],
                metrics: &[#(#metrics.declaration()),*],
                log_panics: #log_panics,
            };
        }

        ::tidegate_sdk::__export_operator!(#self_type);
    }
}

fn upper_camel(name: &str) -> String {
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
