//go:build !wasip1

package tidegate

import "sync"

// LogLine is a line that an operator logged in a test.
type LogLine struct {
	Level Level
	Text  string
}

// turn is whose harness calls its operator.
var turn sync.Mutex

// logged is what the operator logs that is being called, and whose it is.
var logged struct {
	sync.Mutex
	lines *[]LogLine
}

func logLine(level Level, line string) {
	logged.Lock()
	defer logged.Unlock()
	if logged.lines != nil {
		*logged.lines = append(*logged.lines, LogLine{level, line})
	}
}
