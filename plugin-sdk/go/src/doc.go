// Package tidegate makes a Tidegate operator of a Go function: it gets a [Record] and says what becomes of it with an
// [Outcome]. The same operator is tested natively, with `go test` and a [Harness], and built for WebAssembly.
//
//	var operator = tidegate.Operator[Config]{
//		Name:    "cut-long",
//		Version: "1.0.0",
//		Reads:   tidegate.Value,
//		Start:   start,
//	}
//
//	func init() { tidegate.Run(operator) }
//	func main() {}
//
// The package is plain Go of the standard library. What the host calls, by the canonical ABI of the component model, is
// in the files for wasip1 alone; an operator never sees it.
package tidegate
