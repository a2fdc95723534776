"""What componentize-py makes the component of; `tidegate build` puts the name of the operator's module into it."""

from importlib import import_module

from tidegate.component import exported

Packed = exported(import_module("{{entry}}"))
