package tidegate

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"strings"
)

// panicText says what a panic was and where: "panic: boom (redact.go:12)". It is called while the stack of the panic is
// still there, by the deferred function itself.
func panicText(recovered any) string {
	if place := panicPlace(); place != "" {
		return fmt.Sprintf("panic: %s (%s)", panicMessage(recovered), place)
	}
	return "panic: " + panicMessage(recovered)
}

func panicMessage(recovered any) string {
	switch said := recovered.(type) {
	case runtime.Error:
		return said.Error()
	case error:
		return fmt.Sprintf("%T: %s", said, said)
	case string:
		return said
	}
	return fmt.Sprintf("%T: %v", recovered, recovered)
}

// panicPlace finds the innermost line of the user's own sources on the stack of a panic, else of any sources beside the
// runtime's: "redact.go:12".
func panicPlace() string {
	var counters [64]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters[:])])
	fallback := ""
	panicked := false
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicked, fallback = true, ""
		case !panicked || strings.HasPrefix(frame.Function, "runtime."):
		case isUsers(frame.Function):
			return fmt.Sprintf("%s:%d", path.Base(frame.File), frame.Line)
		case fallback == "" && !strings.HasPrefix(frame.Function, ownPackage+"."):
			fallback = fmt.Sprintf("%s:%d", path.Base(frame.File), frame.Line)
		}
		if !more {
			return fallback
		}
	}
}

var (
	// The import path of this package: that of the user's module, and the name of its directory.
	ownPackage  = reflect.TypeFor[Record]().PkgPath()
	usersModule = path.Dir(ownPackage)
)

// isUsers tells whether a function is of the user's module and not of this package.
func isUsers(function string) bool {
	if strings.HasPrefix(function, "main.") {
		return true
	}
	if strings.HasPrefix(function, ownPackage+".") {
		return false
	}
	rest, found := strings.CutPrefix(function, usersModule)
	return found && rest != "" && (rest[0] == '.' || rest[0] == '/')
}
