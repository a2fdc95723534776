//go:build wasip1 && !tidegate_log

package tidegate

import (
	"fmt"
	"os"
)

// The component does not import the host's log: operator.toml does not grant it.
func logLine(level Level, line string) { fmt.Fprintf(os.Stderr, "%s: %s\n", level, line) }
