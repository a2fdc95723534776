//go:build wasip1 && tidegate_log

package tidegate

// The component imports the host's log because `tidegate build` set the tag: operator.toml grants it.
//
//go:wasmimport tidegate:operator/log@1.0.0 write
func hostLog(level uint32, line string)

func logLine(level Level, line string) { hostLog(uint32(level), line) }
