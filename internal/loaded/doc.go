// Package loaded has the states of code that the driver has loaded: modules of a context, and libraries, which
// make modules for contexts. Package launch launches its functions.
package loaded
