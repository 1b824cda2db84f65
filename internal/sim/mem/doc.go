// Package mem has the bytes of memory, without addresses of devices and without handles: a [Content] is provided by
// the machine, granule by granule, as it is written, within a [Budget]. So a shortage of memory is a result, and the
// process does not end.
package mem
