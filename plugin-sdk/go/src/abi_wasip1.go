package tidegate

import "unsafe"

// The canonical ABI of the component model, as far as an operator needs it. The host reads what it is answered where it
// lies, before it calls again.

// abiText is a string or a list: where it is and how long. Go's own pointers have 64 bits; what is pointed to here has to
// be held elsewhere, which is what `held` is for.
type abiText struct{ at, length uint32 }

// held keeps what the last answer points to.
var held []any

func address(at unsafe.Pointer) uint32 { return uint32(uintptr(at)) }

func abiString(text string) abiText {
	text = valid(text)
	held = append(held, text)
	return abiText{address(unsafe.Pointer(unsafe.StringData(text))), uint32(len(text))}
}

func abiList[T any](list []T) abiText {
	held = append(held, list)
	return abiText{address(unsafe.Pointer(unsafe.SliceData(list))), uint32(len(list))}
}

func abiStrings(texts []string) abiText {
	list := make([]abiText, len(texts))
	for index, text := range texts {
		list[index] = abiString(text)
	}
	return abiList(list)
}

type abiFailure struct {
	class         uint32
	code, message abiText
}

type abiMetric struct {
	name   abiText
	kind   uint32
	help   abiText
	labels abiText
	bounds abiText
}

type abiDescription struct {
	name, version, configSchema            abiText
	reads                                  uint32
	outputs, metrics, handlers, extensions abiText
}

// abiResult is `result<T, failure>`: the payload is the first words of it, whatever T is.
type abiResult struct {
	isFailure uint32
	payload   abiDescription
}

var answered abiResult

func answerOf[T abiText | abiDescription](payload T) unsafe.Pointer {
	answered = abiResult{}
	*(*T)(unsafe.Pointer(&answered.payload)) = payload
	return unsafe.Pointer(&answered)
}

func answerFailure(failure *Failure) unsafe.Pointer {
	answered = abiResult{isFailure: 1}
	*(*abiFailure)(unsafe.Pointer(&answered.payload)) = abiFailure{
		class:   uint32(failure.Class),
		code:    abiString(failure.Code),
		message: abiString(failure.Message),
	}
	return unsafe.Pointer(&answered)
}

// Memory for what the host passes, beside Go's own.
var passed struct {
	start      unsafe.Pointer
	size, used uintptr
}

// Least bytes of it: a page of WebAssembly.
const page = 64 << 10

//go:linkname sbrk runtime.sbrk
func sbrk(bytes uintptr) unsafe.Pointer

// The host may ask for memory only where the component calls nobody: Go's own allocator would, as its collector looks at
// the clock. What is asked for lasts until the call is answered, and is used again by the next.
//
//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, had, align, wanted uint32) unsafe.Pointer {
	bytes := (uintptr(wanted) + 15) &^ 15
	if passed.size-passed.used < bytes {
		grow(passed.used + bytes)
	}
	at := unsafe.Add(passed.start, passed.used)
	passed.used += bytes
	if old != nil {
		copy(unsafe.Slice((*byte)(at), wanted), unsafe.Slice((*byte)(old), min(had, wanted)))
	}
	return at
}

// grow makes room for so many bytes: where it is, or, where Go's heap has taken the memory behind it, elsewhere and at
// least twice as large. So what is given up is less than what there is, and all together at most four times the largest
// batch. It takes no more than it has to, since the host ends an instance that asks for too much. What lies in it during
// the same call stays where it is, in what is given up.
func grow(wanted uintptr) {
	size := (wanted + page - 1) &^ (page - 1)
	if passed.start != nil && sbrk(0) == unsafe.Add(passed.start, passed.size) {
		if sbrk(size-passed.size) != nil {
			passed.size = size
			return
		}
	} else if start := sbrk(max(size, 2*passed.size)); start != nil {
		passed.start, passed.size, passed.used = start, max(size, 2*passed.size), 0
		return
	}
	panic("there is no memory for a batch")
}

// The adapter for WASI preview 1 keeps its own state in what it asks for, from before Go's runtime has started.
//
//go:wasmexport cabi_realloc_adapter
func cabiReallocAdapter(old unsafe.Pointer, had, align, wanted uint32) unsafe.Pointer {
	return sbrk(uintptr(wanted+page-1) &^ (page - 1))
}
