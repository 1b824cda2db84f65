// Package hostfunc has the Go functions that streams and graphs call.
package hostfunc
