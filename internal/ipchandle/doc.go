// Package ipchandle encodes and decodes the handles that other processes open: those of events and of memory.
package ipchandle
