// Package eventuse has what a call finds in an event of the program, which may be a cu.Event or a cu.Pooled.
package eventuse
