"""Runs schemathesis over OpenAI's description of its wire against a gateway.

What it generates is mostly refused, as it is there: by the description alone every model name may be asked for. What is
looked at is that nothing is a server's error, that answers have the form that is described, and refusals that of an
error.
"""

import json
import os
import subprocess
import sys
import tempfile

from check import BASE_URL, MODEL

PATHS = ["/chat/completions", "/completions", "/embeddings", "/models", "/models/{model}", "/responses"]
# The description names 200 and 429 only.
REFUSALS = ["400", "401", "403", "404", "413", "415", "422"]
ERROR = {
    "description": "A refusal",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {
                        "type": "object",
                        "required": ["message", "type", "param", "code"],
                        "properties": {
                            "message": {"type": "string"},
                            "type": {"type": "string"},
                            "param": {"type": ["string", "null"]},
                            "code": {"type": ["string", "null"]},
                        },
                    }
                },
            }
        }
    },
}
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def narrowed(description):
    """Only what is here, with refusals."""
    description["paths"] = {path: description["paths"][path] for path in PATHS}
    for operations in description["paths"].values():
        for operation in operations.values():
            if isinstance(operation, dict) and "responses" in operation:
                for status in REFUSALS:
                    operation["responses"].setdefault(status, ERROR)
    description["servers"] = [{"url": BASE_URL}]
    return description


def main():
    with open(sys.argv[1]) as file:
        description = narrowed(json.load(file))
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "openapi.json")
        with open(path, "w") as file:
            json.dump(description, file)
        command = [sys.executable, "-m", "schemathesis.cli", "run", path, "--url", BASE_URL]
        command += ["--checks", CHECKS, "--max-examples", os.environ.get("EXAMPLES", "60"), "--seed", "1"]
        command += ["--request-timeout", "300", "--phases", "examples,fuzzing", "--no-color"]
        ran = subprocess.run(command, cwd=place)
    print(f"1 checks, {int(ran.returncode != 0)} failed")
    sys.exit(ran.returncode)


if __name__ == "__main__":
    main()
