//go:build !nosoft

package main

// With PURECU_DRIVER=soft the program runs without a GPU. Build what you ship with -tags nosoft: that
// leaves the software driver out, which saves about 2.6 MB of a stripped program.
import _ "github.com/purecu/purecu/cusim/auto"
