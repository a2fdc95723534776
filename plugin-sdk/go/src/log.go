package tidegate

import "fmt"

// Level says how much a line of the log matters.
type Level uint8

// The levels of the host's log.
const (
	// LevelTrace is for following single records.
	LevelTrace Level = iota
	// LevelDebug is for finding a fault.
	LevelDebug
	// LevelInfo is worth knowing.
	LevelInfo
	// LevelWarn is worth looking at.
	LevelWarn
	// LevelError: something failed.
	LevelError
)

func (l Level) String() string {
	if names := [...]string{"trace", "debug", "info", "warn", "error"}; int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Log writes a line to the host's log, which bounds its length (4 KiB) and how many there are (100 a second). An operator
// whose operator.toml does not grant "log" writes it to standard error, which the host shows too.
func Log(level Level, line string) { logLine(min(level, LevelError), valid(line)) }

// Logf writes a formatted line to the host's log.
func Logf(level Level, format string, values ...any) { Log(level, fmt.Sprintf(format, values...)) }
