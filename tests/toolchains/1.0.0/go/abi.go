package main

import "unsafe"

// The functions that the host calls, as the canonical ABI of the component model has them: `wasm-tools component embed`
// adds what they are of.

// text is a string or a list: where it is and how long. Go's own pointers have 64 bits, and what is pointed to here has
// to be held elsewhere.
type text struct{ at, length uint32 }

func address(at unsafe.Pointer) uint32 { return uint32(uintptr(at)) }

func textOf(s string) text {
	return text{address(unsafe.Pointer(unsafe.StringData(s))), uint32(len(s))}
}

// failure of a call, with what it is called and what it says.
type failure struct {
	class         uint32
	code, message text
}

const permanent = 1

func failureOf(class uint32, code, message string) *failure {
	return &failure{class, textOf(code), textOf(message)}
}

type description struct {
	name, version, configSchema           text
	reads                                 uint32
	outputs, metrics, handlers, extension text
}

const readsValue = 2

// result is `result<T, failure>`. The payload is the first words of it, whatever T is.
type result struct {
	isFailure uint32
	payload   description
}

func ok[T text | description](payload T) unsafe.Pointer {
	answered = result{}
	*(*T)(unsafe.Pointer(&answered.payload)) = payload
	return unsafe.Pointer(&answered)
}

func fails(failed *failure) unsafe.Pointer {
	answered = result{isFailure: 1}
	*(*failure)(unsafe.Pointer(&answered.payload)) = *failed
	return unsafe.Pointer(&answered)
}

var (
	answered result
	// Memory for what the host passes, beside Go's own, and how much of it is used.
	memory     unsafe.Pointer
	size, used uintptr
)

//go:linkname sbrk runtime.sbrk
func sbrk(bytes uintptr) unsafe.Pointer

// The host may ask for memory only where the component calls nobody: Go's own allocator would, as its collector looks at
// the clock. What is asked for lasts until the call is answered.
//
//go:wasmexport cabi_realloc
func realloc(old unsafe.Pointer, had, align, wanted uint32) unsafe.Pointer {
	// The host never asks for more of what it has: it knows how long what it passes is.
	bytes := (uintptr(wanted) + 15) &^ 15
	if size-used < bytes {
		size, used = (2*size+bytes+0xffff)&^0xffff, 0
		memory = sbrk(size)
		if memory == nil {
			panic("no memory for a batch")
		}
	}
	at := unsafe.Add(memory, used)
	used += bytes
	return at
}

// The adapter for WASI preview 1 keeps its own state in what it asks for, from before Go's runtime has started.
//
//go:wasmexport cabi_realloc_adapter
func reallocAdapter(old unsafe.Pointer, had, align, wanted uint32) unsafe.Pointer {
	return sbrk(uintptr(wanted+0xffff) &^ 0xffff)
}

// What the host has passed is done with.
func release() { used = 0 }

//go:wasmexport tidegate:operator/packed@1.0.0#describe
func describe(config unsafe.Pointer, length uint32) unsafe.Pointer {
	release()
	return ok(description{
		name:         textOf("uppercase-go"),
		version:      textOf("1.0.0"),
		configSchema: textOf("{}"),
		reads:        readsValue,
	})
}

//go:wasmexport tidegate:operator/packed@1.0.0#init
func initialize(config unsafe.Pointer, length uint32) unsafe.Pointer {
	release()
	return ok(text{})
}

//go:wasmexport tidegate:operator/packed@1.0.0#process
func processBatch(batch unsafe.Pointer, length uint32) unsafe.Pointer {
	bytes, failed := process(unsafe.Slice((*byte)(batch), length))
	release()
	if failed != nil {
		return fails(failed)
	}
	return ok(text{address(unsafe.Pointer(unsafe.SliceData(bytes))), uint32(len(bytes))})
}
