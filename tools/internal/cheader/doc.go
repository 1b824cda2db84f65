// Package cheader reads the declarations of C headers: constants, types with their layouts, and
// prototypes of functions.
//
// lex.go, cpp.go and eval.go are C's preprocessor, parse*.go and ctype.go its declarations.
package cheader
