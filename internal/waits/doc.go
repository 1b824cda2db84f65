// Package waits is how goroutines wait for a record: by a call (wait.go: Event.Wait begins at Present), or by a Ticket,
// which tells of the end later (ticket.go). Package watch knows when a record is complete.
package waits
