
# Of an operator that handles tokens.
from tidegate.component import tokens

Tokens = tokens()
