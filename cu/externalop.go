package cu

import "github.com/purecu/purecu/internal/extsem"

// ExternalOp is a signal of an interop.Semaphore, or a wait for it.
type ExternalOp struct {
	//lint:ignore U1000 packages in this folder use it
	externalOpRef
}

// externalOpRef is an alias, so that the field of an ExternalOp is not exported.
type externalOpRef = extsem.OpRef
