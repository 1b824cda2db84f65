package vm

import (
	"fmt"

	"github.com/purecu/purecu/internal/ptx/texture"
)

// This file has textures and surfaces as instructions use them.

// Images finds the textures and surfaces of a device. It is used by several goroutines at once.
type Images interface {
	// Texture and Surface return the object of a handle, or nil if there is none.
	Texture(handle uint64) *texture.Object
	Surface(handle uint64) *texture.Object
}

// Texture returns the texture of a handle that a lane has, or nil after a fault.
func (w *Warp) Texture(lane int, handle uint64) *texture.Object {
	if images := w.block.run.Images; images != nil {
		if o := images.Texture(handle); o != nil {
			return o
		}
	}
	return w.noImage(lane, handle, "texture")
}

// Surface is Texture for surfaces.
func (w *Warp) Surface(lane int, handle uint64) *texture.Object {
	if images := w.block.run.Images; images != nil {
		if o := images.Surface(handle); o != nil {
			return o
		}
	}
	return w.noImage(lane, handle, "surface")
}

// noImage records a fault of a handle.
func (w *Warp) noImage(lane int, handle uint64, what string) *texture.Object {
	w.FailLane(IllegalAddress, lane, fmt.Sprintf("%#x is no %s object of this context: it was not created, or it was "+
		"destroyed", handle, what))
	return nil
}

// FailLane is Fail for a lane.
func (w *Warp) FailLane(code, lane int, reason string) {
	w.fail(code, lane)
	w.Fault.Reason = reason
}
