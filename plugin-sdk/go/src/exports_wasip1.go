package tidegate

import (
	"runtime/debug"
	"strings"
	"unsafe"
)

// What the host calls: the interface `tidegate:operator/packed@1.0.0`. Interfaces that join later have files beside this.

// The instance, once it is started.
var instance *running

func init() {
	// An instance has little that lives and makes little garbage: a small heap costs less than it takes to collect it.
	debug.SetGCPercent(50)
}

//go:wasmexport tidegate:operator/packed@1.0.0#describe
func exportDescribe(config unsafe.Pointer, length uint32) unsafe.Pointer {
	text := taken(config, length)
	if exported == nil {
		return answerFailure(notRun())
	}
	outputs, failure := exported.described(text)
	if failure != nil {
		return answerFailure(failure)
	}
	metrics := make([]abiMetric, len(exported.metrics))
	for index, metric := range exported.metrics {
		metrics[index] = abiMetric{
			name:   abiString(metric.name),
			kind:   uint32(metric.kind),
			help:   abiString(metric.help),
			labels: abiStrings(metric.labels),
			bounds: abiList(metric.bounds),
		}
	}
	var handlers []string
	if exported.handlesTokens {
		handlers = []string{"tokens"}
	}
	return answerOf(abiDescription{
		name:         abiString(exported.name),
		version:      abiString(exported.version),
		configSchema: abiString(exported.schema),
		reads:        uint32(exported.reads),
		outputs:      abiStrings(outputs),
		metrics:      abiList(metrics),
		handlers:     abiStrings(handlers),
	})
}

//go:wasmexport tidegate:operator/packed@1.0.0#init
func exportInit(config unsafe.Pointer, length uint32) unsafe.Pointer {
	text := taken(config, length)
	if exported == nil {
		return answerFailure(notRun())
	}
	started, failure := exported.startWith(text)
	if failure != nil {
		return answerFailure(failure)
	}
	instance = started
	return answerOf(abiText{})
}

//go:wasmexport tidegate:operator/packed@1.0.0#process
func exportProcess(batch unsafe.Pointer, length uint32) unsafe.Pointer {
	held, passed.used = held[:0], 0
	if instance == nil {
		return answerFailure(Permanent("not-started", "`process` was called before `init`"))
	}
	bytes, failure := instance.answerTo(unsafe.Slice((*byte)(batch), length))
	if failure != nil {
		return answerFailure(failure)
	}
	return answerOf(abiText{address(unsafe.Pointer(unsafe.SliceData(bytes))), uint32(len(bytes))})
}

// taken copies a text that the host has passed, and begins an answer.
func taken(at unsafe.Pointer, length uint32) string {
	held, passed.used = held[:0], 0
	return strings.Clone(unsafe.String((*byte)(at), length))
}

func notRun() *Failure {
	return Permanent("no-operator", "the program does not call tidegate.Run in func init")
}
