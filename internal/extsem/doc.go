// Package extsem has semaphores of other APIs, such as Vulkan: signals and waits that streams and nodes of graphs
// do.
package extsem
