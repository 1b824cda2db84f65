// Command gourg is a shared library with a Go runtime of its own, which takes
// signals over when it is loaded.
package main

import "C"

//export Answer
func Answer() C.int { return 42 }

func main() {}
