package green

import (
	"fmt"
	"math"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/subject"
)

// SMGroup asks [SMResource.SplitGroups] for a part of the multiprocessors
// (CU_DEV_SM_RESOURCE_GROUP_PARAMS). A part consists of sets of multiprocessors which are near each
// other, so that one cluster of blocks can run on a set.
//
// It is a value. The zero SMGroup asks for as many multiprocessors as possible.
type SMGroup struct {
	// Count is how many multiprocessors the part has: a multiple of 2, and of Coscheduled. 0 means as
	// many as possible of those that the groups before have left.
	Count int
	// Coscheduled is the size of the sets, a multiple of 2. 0 means the device's default, usually 8
	// from compute capability 9.0 on, and 2 before. The largest size is 32, and 2 before 9.0.
	Coscheduled int
	// PreferredCoscheduled is the size of larger sets that the driver forms where it can, a multiple
	// of Coscheduled. They serve [cu.LaunchPreferredCluster]. 0 means the default.
	PreferredCoscheduled int
	// Backfill lets the part have multiprocessors outside of the sets. There is at least one set, and
	// Count need not be a multiple of Coscheduled (CU_DEV_SM_RESOURCE_GROUP_BACKFILL). With a Count of
	// 0 the part has all that is left, so such a group comes last.
	Backfill bool
}

// SplitGroups divides the multiprocessors into one part for each group, in this order, and the
// rest, which may be empty (cuDevSmResourceSplit, CUDA 13.1). On older drivers the error matches
// errors.ErrUnsupported. The parts do not overlap; parts of two splits may. A split reserves
// nothing: make one to learn how many multiprocessors a group with the Count 0 gets. It may wait
// for the GPU: see docs/blocking.md.
//
// What a GPU allows depends on where its multiprocessors are. The driver refuses other groups with
// [cu.ResultInvalidResourceConfiguration], even if the numbers fit. Then ask for fewer of them, for a
// Count of 0, for smaller sets, or for Backfill.
//
// SplitGroups can split the rest again. A part cannot be split again, but the multiprocessors of a
// green context that is made of it can: see [Context.SMs].
//
// Unverified: this follows NVIDIA's documentation, and was not seen on a GPU. The software driver
// makes sets of any multiprocessors, so it refuses less.
func (r SMResource) SplitGroups(groups ...SMGroup) (parts []SMResource, rest SMResource, err error) {
	const op = "cuDevSmResourceSplit"
	if err := r.checkSplit(op, !r.part || r.left); err != nil {
		return nil, rest, err
	}
	if err := checkGroups(op, r.object(), groups, r.Count()); err != nil {
		return nil, rest, err
	}
	if err := r.enter(op); err != nil {
		return nil, rest, err
	}
	defer r.leave()
	params := make([]driver.DevSmResourceGroupParams, len(groups))
	for i, g := range groups {
		params[i] = driver.DevSmResourceGroupParams{
			SmCount: uint32(g.Count), CoscheduledSmCount: uint32(g.Coscheduled),
			PreferredCoscheduledSmCount: uint32(g.PreferredCoscheduled),
		}
		if g.Backfill {
			params[i].Flags = driver.CU_DEV_SM_RESOURCE_GROUP_BACKFILL
		}
	}
	raw := make([]driver.DevResource, len(groups))
	dev := subject.Device(r.dev)
	left, res := dev.Drv.Table().DevSmResourceSplit(driver.At{}, raw, r.raw, 0, params)
	if res != driver.ResultSuccess {
		return nil, rest, dev.CallError(op, res)
	}
	for _, part := range raw {
		parts = append(parts, SMResource{dev: r.dev, raw: part, part: true, of: r.of})
	}
	if left.SMCount() > 0 {
		rest = SMResource{dev: r.dev, raw: left, part: true, left: true, of: r.of}
	}
	return parts, rest, nil
}

// checkGroups returns an error if no device with this many multiprocessors can be divided into the
// groups.
func checkGroups(op string, of drivercall.Named, groups []SMGroup, have int) error {
	if len(groups) == 0 {
		return drivercall.BadValue(op, of, "there are no groups: pass a green.SMGroup for each part")
	}
	sum := 0
	for i, g := range groups {
		if text := g.wrong(have); text != "" {
			return drivercall.BadValue(op, of, fmt.Sprintf("SMGroup %d of %d: %s", i+1, len(groups), text))
		}
		if g.Backfill && g.Count == 0 && i < len(groups)-1 {
			return badSplit(op, of, fmt.Sprintf("SMGroup %d of %d has all that is left: make it the last one, "+
				"or give it a Count", i+1, len(groups)))
		}
		if sum += g.Count; sum > have {
			return badSplit(op, of, fmt.Sprintf("the first %d groups have %d multiprocessors, and there are %d: "+
				"ask for fewer", i+1, sum, have))
		}
	}
	return nil
}

// wrong says which field of the group is wrong, or returns "".
func (g SMGroup) wrong(have int) string {
	bad := func(n, most, of int) bool { return n < 0 || n > most || n%of != 0 }
	switch {
	case bad(g.Count, have, 2):
		return fmt.Sprintf("Count is %d, and has to be an even number of at most %d multiprocessors, or 0",
			g.Count, have)
	case bad(g.Coscheduled, have, 2):
		return fmt.Sprintf("Coscheduled is %d, and has to be an even number of at most %d multiprocessors, or 0",
			g.Coscheduled, have)
	case bad(g.PreferredCoscheduled, math.MaxInt32, max(g.Coscheduled, 2)):
		return fmt.Sprintf("PreferredCoscheduled is %d, and has to be a multiple of Coscheduled, or 0",
			g.PreferredCoscheduled)
	case g.Count == 0 || g.Coscheduled == 0:
	case g.Count < g.Coscheduled:
		return fmt.Sprintf("Count is %d, and has to be at least Coscheduled, %d", g.Count, g.Coscheduled)
	case g.Count%g.Coscheduled != 0 && !g.Backfill:
		return fmt.Sprintf("Count is %d, and has to be a multiple of Coscheduled, %d, without Backfill",
			g.Count, g.Coscheduled)
	}
	return ""
}

// StreamSMs returns the multiprocessors on which the stream's kernels run: those of its green
// context, or of its context (cuStreamGetDevResource, CUDA 13.1). On older drivers the error
// matches errors.ErrUnsupported. After the green context was closed they have a Count, but can
// neither be split nor be used for another green context. It may wait for the GPU: see
// docs/blocking.md.
//
// Unverified: this follows NVIDIA's documentation, and was not seen on a GPU. The driver call may
// invalidate a capture that the stream is part of: call StreamSMs before the capture. The driver
// tells nothing about a stream's work queues: see [Context.Queues].
func StreamSMs(s *cu.Stream) (SMResource, error) {
	const op = "cuStreamGetDevResource"
	sc, err := subject.EnterStream(s, op)
	if err != nil {
		return SMResource{}, err
	}
	defer subject.LeaveStream(s)
	sc.EnterGate()
	raw, res := sc.Ctx.Drv.Table().StreamGetDevResource(sc.InContext(), sc.Raw, driver.CU_DEV_RESOURCE_TYPE_SM)
	sc.LeaveGate()
	if res != driver.ResultSuccess {
		return SMResource{}, sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return SMResource{dev: subject.DeviceOf(sc.Ctx), raw: raw, of: sc.Green}, nil
}
