// Package mem has the bytes of memory, without what owns it and without handles.
//
//   - A [Content] is what memory contains. It is provided by the machine, granule by granule, as it is written, within
//     a [Budget]. So a shortage of memory is a result, and the process does not end.
//   - [Blocks] finds the block of an address. A block is any type that has addresses: package sim's has an owner, too.
//     Kernels see a [Region] of it, which they find without a lock.
//   - [FreedList] and [StaleList] are for reports about uses of memory that was freed.
package mem
