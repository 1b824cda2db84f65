// Package eventpool has the pool of events of a context, and what a cu.Pooled refers to: one use of one entry.
package eventpool
