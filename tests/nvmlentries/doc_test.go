// Package nvmlentries asks an NVML nearly everything: each function with each number, with NULL, with wrong handles and
// versions, and with buffers that are too short. What an H200 answered is in internal/simnvml/profiles, and
// TestSoftware holds the software NVML to it.
//
//	go test -c ./tests/nvmlentries && ./nvmlentries.test -nvmlentries.record h200.tsv # on a GPU
//
// Functions that change something are called with wrong handles only, where they cannot take effect. A call that
// crashes the library ends its process; the next process continues. A row has
//
//	phase        before, initialized or after: of the library
//	function     a method of raw.Software
//	arguments    device, null or wrong: a handle; 3: a number; *: a variable; nil; =512: a count; #512: a slice
//	             of this length; v0: a struct with this version; *{Fan:1}: a struct with this member
//	result       a number, crash, hangs, or missing: the library lacks the function; after ~ if it changes by itself
//	values       what the call set, in the order of the arguments; -: nothing
package nvmlentries
