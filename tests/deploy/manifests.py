"""Holds every manifest of a directory against the schemas of Kubernetes; those of KEDA and of Prometheus's operator are printed as JSON, one a line."""

import json
import sys
from pathlib import Path

import kubernetes_validate
import yaml

VERSIONS = ["1.30", "1.37"]


def documents(directory):
    for path in sorted(Path(directory).glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] != "Kustomization":
                yield path, document


def merged(base, patch):
    """As kustomize does: objects member by member, containers by their name, other lists as they come."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in patch.items()}}
    named = isinstance(patch, list) and all(isinstance(one, dict) and "name" in one for one in patch)
    if isinstance(base, list) and named:
        patches = {one["name"]: one for one in patch}
        kept = [merged(one, patches.pop(one["name"], {})) for one in base]
        return kept + list(patches.values())
    return patch


def validate(path, document):
    for version in VERSIONS:
        kubernetes_validate.validate(document, version, strict=True)
    print(f"{path.name}: {document['kind']}", file=sys.stderr)


root = Path(sys.argv[1])
base = {document["kind"]: document for _, document in documents(root / "base")}
for path, document in documents(root / "base"):
    validate(path, document)
for path, patch in documents(root / "gpu"):
    validate(path, merged(base[patch["kind"]], patch))
for more in ["keda", "prometheus"]:
    for _, document in documents(root / more):
        print(json.dumps(document))
# What KEDA scales has no number of its own, which each apply would put in the place of KEDA's.
overlay = yaml.safe_load((root / "keda/kustomization.yaml").read_text())
for patch in overlay["patches"]:
    document = base[patch["target"]["kind"]]
    for step in yaml.safe_load(patch["patch"]):
        *above, last = step["path"].strip("/").split("/")
        assert step["op"] == "remove", step
        inner = document
        for member in above:
            inner = inner[member]
        del inner[last]
    assert "replicas" not in document["spec"], "keda: the base's replicas are still there"
    validate(root / "keda/kustomization.yaml", document)
