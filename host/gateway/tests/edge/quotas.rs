//! What a key may do, and how much of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::HeaderMap;
use tidegate_gateway::access::{
    Access, AccessError, AccessOptions, Key, Limit, Permissions, Quota, Scope, Secret, Who,
};

use crate::keys::{Hands, key};

async fn limited(quota: Quota, clock: Arc<Hands>) -> Who {
    let permissions = Permissions {
        quota: Some("small".into()),
        ..Permissions::default()
    };
    let options = AccessOptions {
        keys: vec![key("ann", "sk", permissions)],
        quotas: BTreeMap::from([("small".to_owned(), quota)]),
        ..AccessOptions::default()
    };
    let access = Access::with_clock(options, None, clock).unwrap();
    let headers = HeaderMap::from_iter([("api-key".parse().unwrap(), "sk".parse().unwrap())]);
    access
        .admit(&headers, "127.0.0.1".parse().unwrap())
        .await
        .unwrap()
}

fn left(who: &Who, name: &str) -> String {
    let found = who.left().into_iter().find(|(header, _)| header == name);
    found.unwrap().1.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn tokens_are_reserved_before_and_settled_after() {
    let clock = Arc::new(Hands::default());
    let quota = Quota {
        tokens: Some(1000),
        ..Quota::default()
    };
    let who = limited(quota, clock.clone()).await;
    let first = who.reserve(600).unwrap();
    let exceeded = who.reserve(600).unwrap_err();
    assert_eq!((exceeded.what, exceeded.limit), (Limit::Tokens, 1000));
    assert_eq!(exceeded.after, Some(Duration::from_secs(12)));
    // It used less than it might have.
    first.settle(100);
    let second = who.reserve(900).unwrap();
    assert_eq!(left(&who, "x-ratelimit-remaining-tokens"), "0");
    assert_eq!(left(&who, "x-ratelimit-limit-tokens"), "1000");
    assert_eq!(left(&who, "x-ratelimit-reset-tokens"), "1m0s");
    // Dropped, it used nothing.
    drop(second);
    let third = who.reserve(900).unwrap();
    // More than was reserved is owed.
    third.settle(1900);
    assert!(who.reserve(1).is_err());
    clock.pass(Duration::from_secs(60));
    assert!(who.reserve(1).is_err());
    clock.pass(Duration::from_secs(6));
    assert!(who.reserve(100).is_ok());
    assert_eq!(
        who.reserve(1001).unwrap_err().after,
        None,
        "it can never be had"
    );
}

#[tokio::test]
async fn requests_are_counted_by_the_minute_and_come_back_one_by_one() {
    let clock = Arc::new(Hands::default());
    let who = limited(
        Quota {
            requests: Some(2),
            ..Quota::default()
        },
        clock.clone(),
    )
    .await;
    let first = who.begin(false, None).unwrap();
    assert_eq!(left(&who, "x-ratelimit-remaining-requests"), "1");
    assert_eq!(left(&who, "x-ratelimit-reset-requests"), "30s");
    drop(first);
    drop(who.begin(true, None).unwrap());
    let exceeded = who.begin(false, None).unwrap_err();
    assert_eq!(
        (exceeded.what, exceeded.after),
        (Limit::Requests, Some(Duration::from_secs(30)))
    );
    clock.pass(Duration::from_secs(30));
    drop(who.begin(false, None).unwrap());
    assert!(who.begin(false, None).is_err());
}

#[tokio::test]
async fn requests_that_last_are_counted_while_they_do() {
    let who = limited(
        Quota {
            requests: Some(5),
            concurrent: Some(2),
            ..Quota::default()
        },
        Arc::default(),
    )
    .await;
    let first = who.begin(true, None).unwrap();
    let second = who.begin(true, None).unwrap();
    let exceeded = who.begin(true, None).unwrap_err();
    assert_eq!(
        (exceeded.what, exceeded.limit, exceeded.after),
        (Limit::Concurrent, 2, Some(Duration::from_secs(1)))
    );
    // Who is refused for that has taken none of those a minute.
    assert_eq!(left(&who, "x-ratelimit-remaining-requests"), "3");
    assert!(who.begin(false, None).is_ok());
    drop(first);
    let third = who.begin(true, None).unwrap();
    drop((second, third));
    assert!(who.begin(true, None).is_ok());
}

#[tokio::test]
async fn all_requests_of_a_key_share_its_quota() {
    let who = limited(
        Quota {
            tokens: Some(10),
            ..Quota::default()
        },
        Arc::default(),
    )
    .await;
    let _held = who.clone().reserve(10).unwrap();
    assert!(who.reserve(1).is_err());
    let anyone = Who::anyone();
    assert_eq!(anyone.left(), [], "without a quota nothing is said of it");
}

#[tokio::test]
async fn a_key_may_what_its_scopes_and_models_say() {
    let permissions = Permissions {
        scopes: Some(vec![Scope::Chat, Scope::Models]),
        models: Some(vec!["small".into()]),
        quota: None,
    };
    let options = AccessOptions {
        keys: vec![key("ann", "sk", permissions)],
        ..AccessOptions::default()
    };
    let access = Access::new(options, None).unwrap();
    let headers = HeaderMap::from_iter([("api-key".parse().unwrap(), "sk".parse().unwrap())]);
    let who = access
        .admit(&headers, "127.0.0.1".parse().unwrap())
        .await
        .unwrap();
    assert!(who.may_use(Scope::Chat) && who.may_ask("small"));
    assert!(!who.may_ask("large") && !who.may_use(Scope::Ingest));
    for scope in Scope::ALL {
        // The page is for those whose key names it.
        assert_eq!(Who::anyone().may_use(scope), scope != Scope::Page);
        assert!(Who::anyone().may_ask("large"));
        assert_eq!(Scope::named(scope.name()), Some(scope));
    }
}

#[test]
fn access_that_cannot_be_is_refused_by_name() {
    let refused = |keys: Vec<Key>| {
        Access::new(
            AccessOptions {
                keys,
                ..AccessOptions::default()
            },
            None,
        )
        .unwrap_err()
    };
    let any = Permissions::default;
    assert!(matches!(
        refused(vec![key("a", "1", any()), key("a", "2", any())]),
        AccessError::Twice(_)
    ));
    // By two digests, or by whatever their variables hold.
    let variable = |name: &str| Key {
        name: name.into(),
        secret: Secret::Environment("PATH".into()),
        permissions: any(),
    };
    let path = std::env::var("PATH").unwrap();
    for keys in [
        [key("a", "1", any()), key("b", "1", any())],
        [variable("a"), variable("b")],
        [key("a", &path, any()), variable("b")],
    ] {
        let error = refused(keys.into());
        assert!(matches!(error, AccessError::SameSecret { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("`a`") && said.contains("`b`"), "{said}");
        assert!(!said.contains(&path), "{said}");
    }
    for digest in [
        "",
        "sha256:",
        "sha256:xy",
        &format!("sha256:{}", "+f".repeat(32)),
        &"0".repeat(64),
    ] {
        let key = Key {
            name: "a".into(),
            secret: Secret::Digest(digest.to_owned()),
            permissions: any(),
        };
        assert!(
            matches!(refused(vec![key]), AccessError::Digest(_)),
            "{digest}"
        );
    }
    let unset = Secret::Environment("TIDEGATE_TEST_NO_SUCH_VARIABLE".into());
    let error = refused(vec![Key {
        name: "a".into(),
        secret: unset,
        permissions: any(),
    }]);
    assert!(
        error.to_string().contains("TIDEGATE_TEST_NO_SUCH_VARIABLE"),
        "{error}"
    );
    let quota = Permissions {
        quota: Some("large".into()),
        ..any()
    };
    assert!(
        refused(vec![key("a", "1", quota)])
            .to_string()
            .contains("`large`")
    );
    let zero = BTreeMap::from([(
        "none".to_owned(),
        Quota {
            requests: Some(0),
            ..Quota::default()
        },
    )]);
    let error = Access::new(
        AccessOptions {
            quotas: zero,
            ..AccessOptions::default()
        },
        None,
    )
    .unwrap_err();
    assert!(error.to_string().contains("`none`"), "{error}");
}
