// Package descriptor duplicates file descriptors, for functions of C that keep the one that they get.
package descriptor
