//go:build !tidegate_tokens

package tidegate

import "errors"

// The component does not export `tidegate:operator/tokens@1.0.0`: operator.toml does not have the handler.
func checkHandlers(handlesTokens bool) error {
	if !handlesTokens {
		return nil
	}
	return errors.New(`it has Tokens: write handlers = ["tokens"] in operator.toml`)
}
