"""What componentize-py makes the component of; `tidegate build` puts the operator's module and handlers into it."""

from importlib import import_module

from tidegate.component import exported

Packed = exported(import_module("{{entry}}"), "{{handlers}}".split())
