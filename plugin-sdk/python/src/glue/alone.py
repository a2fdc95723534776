"""What componentize-py makes the component of; `tidegate build` puts the operator's module into it."""

import {{entry}} as entry
from tidegate.component import exported

Packed = exported(entry)
