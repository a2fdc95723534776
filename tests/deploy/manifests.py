"""Holds every manifest of a directory, and what each choice of its components makes of them, against the schemas of Kubernetes; those of KEDA and of Prometheus's operator are printed as JSON, one a line."""

import copy
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml

VERSIONS = ["1.30", "1.37"]


def merged(base, patch):
    """As kustomize does: objects member by member, containers by their name, other lists as they come."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in patch.items()}}
    named = isinstance(patch, list) and all(isinstance(one, dict) and "name" in one for one in patch)
    if isinstance(base, list) and named:
        patches = {one["name"]: one for one in patch}
        kept = [merged(one, patches.pop(one["name"], {})) for one in base]
        return list(patches.values()) + kept
    return patch


def removed(document, path):
    """As a JSON patch does."""
    *above, last = path.strip("/").split("/")
    for member in above:
        document = document[member]
    del document[last]


def is_custom(document):
    group, _, _ = document["apiVersion"].rpartition("/")
    return "." in group and not group.endswith(".k8s.io")


def validate(document):
    for version in VERSIONS:
        kubernetes_validate.validate(document, version, strict=True)
    print(f"{document['kind']} {document['metadata']['name']}", file=sys.stderr)


def name(document):
    return document["kind"], document["metadata"]["name"]


def kustomization(directory):
    return yaml.safe_load((directory / "kustomization.yaml").read_text())


def resources(directory):
    """What it brings, each once."""
    brought = {}
    for file in kustomization(directory)["resources"]:
        for document in yaml.safe_load_all((directory / file).read_text()):
            assert name(document) not in brought, f"{directory}: {name(document)} twice"
            brought[name(document)] = document
    return brought


def applied(directory, documents):
    """What a component makes of what there is: its resources are added, its patches are made."""
    of = kustomization(directory)
    assert of["kind"] == "Component", f"{directory}: only components can be had together"
    more = resources(directory) if "resources" in of else {}
    twice = documents.keys() & more.keys()
    assert not twice, f"{directory}: {twice} twice"
    documents = {**copy.deepcopy(documents), **more}
    for patch in of.get("patches", []):
        if "path" in patch:
            change = yaml.safe_load((directory / patch["path"]).read_text())
            documents[name(change)] = merged(documents[name(change)], change)
            continue
        target = patch["target"]["kind"], patch["target"]["name"]
        for step in yaml.safe_load(patch["patch"]):
            assert step["op"] == "remove", step
            removed(documents[target], step["path"])
    return documents


def built(root, chosen):
    """The same by kustomize itself, of a copy in which these are chosen; none where there is none."""
    if not shutil.which("kubectl"):
        return None
    with tempfile.TemporaryDirectory() as copied:
        shutil.copytree(root, copied, dirs_exist_ok=True)
        file = Path(copied, "kustomization.yaml")
        text = file.read_text()
        for one in chosen:
            assert f"#  - {one}\n" in text, f"{one} cannot be chosen"
            text = text.replace(f"#  - {one}\n", f"  - {one}\n")
        file.write_text(text)
        made = subprocess.run(["kubectl", "kustomize", copied], check=True, capture_output=True, text=True)
    return {name(document): document for document in yaml.safe_load_all(made.stdout)}



root = Path(sys.argv[1])
overlays = sorted(one.parent.name for one in root.glob("*/kustomization.yaml") if one.parent.name != "base")
base = resources(root / "base")
for document in base.values():
    validate(document)
every = [chosen for many in range(len(overlays) + 1) for chosen in itertools.combinations(overlays, many)]
for chosen in every:
    documents = base
    for overlay in chosen:
        documents = applied(root / overlay, documents)
    pods = documents["StatefulSet", "tidegate"]
    validate(pods)
    # What KEDA scales has no number of its own, which each apply would put in the place of KEDA's.
    assert ("replicas" in pods["spec"]) == ("keda" not in chosen), chosen
    # The slow way, for none and for all.
    if len(chosen) in (0, len(overlays)) and (ours := built(root, chosen)):
        assert ours.keys() == documents.keys(), (chosen, ours.keys())
        assert ours["StatefulSet", "tidegate"]["spec"] == pods["spec"], chosen
        assert all(one["kind"] == "Namespace" or one["metadata"]["namespace"] == "tidegate" for one in ours.values())
for document in documents.values():
    if is_custom(document):
        print(json.dumps(document))
