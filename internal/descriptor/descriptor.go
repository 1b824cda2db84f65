// Package descriptor duplicates file descriptors, for functions that keep the one that they get.
package descriptor
