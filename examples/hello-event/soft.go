//go:build !nosoft

package main

// With PURECU_DRIVER=soft the program runs without a GPU. Build what you ship with -tags nosoft: that
// leaves the software driver out, and saves 0.6 MB.
import _ "github.com/purecu/purecu/cusim/auto"
