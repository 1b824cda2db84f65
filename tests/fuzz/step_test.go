package fuzz

import (
	"fmt"
	"strings"
)

// op is the kind of a step, which is one call for most steps.
type op uint8

const (
	eventCreate op = iota
	eventDestroy
	eventRecord
	eventRecordWithFlags
	eventQuery
	eventSynchronize
	eventElapsed
	eventElapsedV2
	streamCreate
	streamCreateWithPriority
	streamDestroy
	streamQuery
	streamSynchronize
	streamWaitEvent
	streamGetCtx
	streamGetFlags
	streamGetPriority
	streamGetID
	streamGetDevice
	streamWaitValue
	streamWriteValue
	memsetAsync
	beginCapture
	endCapture
	isCapturing
	captureInfoV2
	captureInfo
	exchangeMode
	ctxSynchronize
	ctxRecordEvent
	ctxWaitEvent
	ctxSetCurrent
	ctxGetCurrent
	ctxPush
	ctxPop
	memAlloc
	memMap
	graphCreate
	graphAddRecord
	graphAddWait
	graphInstantiate
	graphLaunch
	graphExecDestroy
	graphDestroy
	openGate
	poison // a kernel writes to an illegal address
	opCount
)

// operation describes an op: its function, the fields of a step that it uses, and its relative
// frequency.
type operation struct {
	name, args string
	weight     int
}

// The letters stand for operands.
func operations() [opCount]operation {
	return [opCount]operation{
		eventCreate:              {"cuEventCreate", "Ev", 30},
		eventDestroy:             {"cuEventDestroy", "e", 26},
		eventRecord:              {"cuEventRecord", "es", 110},
		eventRecordWithFlags:     {"cuEventRecordWithFlags", "esv", 50},
		eventQuery:               {"cuEventQuery", "e", 80},
		eventSynchronize:         {"cuEventSynchronize", "e", 26},
		eventElapsed:             {"cuEventElapsedTime", "ef", 30},
		eventElapsedV2:           {"cuEventElapsedTime_v2", "ef", 45},
		streamCreate:             {"cuStreamCreate", "Sv", 24},
		streamCreateWithPriority: {"cuStreamCreateWithPriority", "Svp", 34},
		streamDestroy:            {"cuStreamDestroy", "s", 26},
		streamQuery:              {"cuStreamQuery", "s", 40},
		streamSynchronize:        {"cuStreamSynchronize", "s", 24},
		streamWaitEvent:          {"cuStreamWaitEvent", "sev", 80},
		streamGetCtx:             {"cuStreamGetCtx", "s", 20},
		streamGetFlags:           {"cuStreamGetFlags", "s", 20},
		streamGetPriority:        {"cuStreamGetPriority", "s", 20},
		streamGetID:              {"cuStreamGetId", "s", 20},
		streamGetDevice:          {"cuStreamGetDevice", "s", 20},
		streamWaitValue:          {"cuStreamWaitValue32", "s", 110},
		streamWriteValue:         {"cuStreamWriteValue32", "s", 40},
		memsetAsync:              {"cuMemsetD8Async", "s", 28},
		beginCapture:             {"cuStreamBeginCapture", "sv", 60},
		endCapture:               {"cuStreamEndCapture", "sG", 40},
		isCapturing:              {"cuStreamIsCapturing", "s", 20},
		captureInfoV2:            {"cuStreamGetCaptureInfo_v2", "s", 20},
		captureInfo:              {"cuStreamGetCaptureInfo_v3", "s", 20},
		exchangeMode:             {"cuThreadExchangeStreamCaptureMode", "v", 60},
		ctxSynchronize:           {"cuCtxSynchronize", "", 22},
		ctxRecordEvent:           {"cuCtxRecordEvent", "ce", 26},
		ctxWaitEvent:             {"cuCtxWaitEvent", "ce", 26},
		ctxSetCurrent:            {"cuCtxSetCurrent", "c", 14},
		ctxGetCurrent:            {"cuCtxGetCurrent", "", 20},
		ctxPush:                  {"cuCtxPushCurrent", "c", 20},
		ctxPop:                   {"cuCtxPopCurrent", "", 20},
		memAlloc:                 {"cuMemAlloc", "", 12},
		memMap:                   {"cuMemMap", "", 12},
		graphCreate:              {"cuGraphCreate", "G", 30},
		graphAddRecord:           {"cuGraphAddEventRecordNode", "ge", 60},
		graphAddWait:             {"cuGraphAddEventWaitNode", "ge", 60},
		graphInstantiate:         {"cuGraphInstantiate", "gX", 110},
		graphLaunch:              {"cuGraphLaunch", "xs", 190},
		graphExecDestroy:         {"cuGraphExecDestroy", "x", 110},
		graphDestroy:             {"cuGraphDestroy", "g", 30},
		openGate:                 {"open", "v", 34},
		poison:                   {"poison", "", 0},
	}
}

// These are the numbers of slots of each kind.
const (
	contextSlots = 2
	threadSlots  = 2
	eventSlots   = 6
	streamSlots  = 6 // of which 0 is the legacy default stream, 1 the per-thread one
	graphSlots   = 2
	execSlots    = 2

	legacySlot, perThreadSlot, firstStream = 0, 1, 2
)

// step is a call with its operands: values, and slots that have handles.
type step struct {
	op     op
	thread uint8
	ctx    uint8 // counted from 1; 0 is none
	stream uint8
	event  uint8
	end    uint8 // an event too
	graph  uint8
	exec   uint8
	value  int32 // flags, a mode, or a gate
	prio   int32
}

// String returns the call of the step.
func (s step) String() string {
	o := operations()[s.op]
	var args []string
	for _, a := range o.args {
		switch a {
		case 'E', 'e':
			args = append(args, fmt.Sprintf("e%d", s.event))
		case 'f':
			args = append(args, fmt.Sprintf("e%d", s.end))
		case 'S', 's':
			args = append(args, [...]string{"legacy", "perThread", "s2", "s3", "s4", "s5"}[s.stream])
		case 'c':
			args = append(args, [...]string{"NULL", "primary", "c2"}[s.ctx])
		case 'G', 'g':
			args = append(args, fmt.Sprintf("g%d", s.graph))
		case 'X', 'x':
			args = append(args, fmt.Sprintf("x%d", s.exec))
		case 'v':
			args = append(args, fmt.Sprint(s.value))
		case 'p':
			args = append(args, fmt.Sprint(s.prio))
		}
	}
	return fmt.Sprintf("t%d %s(%s)", s.thread, o.name, strings.Join(args, ", "))
}

// program is a sequence of steps, with the number of contexts. A run leaves out steps without
// operands. So any part of a program is a program.
type program struct {
	contexts int
	steps    []step
}

// String returns the list of steps.
func (p program) String() string {
	var b strings.Builder
	for i, s := range p.steps {
		fmt.Fprintf(&b, "\t%2d %v\n", i, s)
	}
	return b.String()
}

// without returns the program without the n steps from i on.
func (p program) without(i, n int) program {
	return program{p.contexts, append(append([]step(nil), p.steps[:i]...), p.steps[i+n:]...)}
}

// shrink removes steps while the program fails.
func shrink(p program, fails func(program) bool) program {
	for n := len(p.steps) / 2; n > 0; {
		dropped := false
		for i := 0; i+n <= len(p.steps); {
			if less := p.without(i, n); fails(less) {
				p, dropped = less, true
			} else {
				i += n
			}
		}
		if !dropped || n > 1 {
			n /= 2
		}
	}
	return p
}
