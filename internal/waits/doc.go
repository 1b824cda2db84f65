// Package waits is how goroutines wait for a record: by a call (ForRecord), or by a Ticket, which tells of the end
// later. Package watch knows when a record is complete.
package waits
