package driver

import (
	"reflect"
	"testing"
	"unsafe"
)

// A layout is what C makes of a struct or a union, in bytes.
type layout struct {
	name        string
	typ         reflect.Type
	size, align uintptr
	fields      []span
}

// A span is where a field is.
type span struct{ offset, size uintptr }

// TestLayouts compares the structs with C's. Go aligns nothing to more than a word: the alignment of
// such a struct is checked where it is passed to C.
func TestLayouts(t *testing.T) {
	if len(layouts) < 80 {
		t.Fatalf("there are only %d structs", len(layouts))
	}
	for _, l := range layouts {
		if l.typ.Size() != l.size {
			t.Errorf("%s has %d bytes as %v, and %d in C", l.name, l.typ.Size(), l.typ, l.size)
		}
		isArray := l.typ.Kind() == reflect.Array // written by hand: it is only in places that are aligned
		if align := uintptr(l.typ.Align()); align != min(l.align, 8) && !isArray {
			t.Errorf("%s is aligned to %d bytes as %v, and to %d in C", l.name, align, l.typ, l.align)
		}
		if l.fields == nil {
			continue
		}
		var fields []reflect.StructField
		for i := range l.typ.NumField() {
			if f := l.typ.Field(i); f.Type.Size() > 0 {
				fields = append(fields, f)
			}
		}
		if len(fields) != len(l.fields) {
			t.Errorf("%s has %d fields as %v, and %d in C", l.name, len(fields), l.typ, len(l.fields))
			continue
		}
		for i, want := range l.fields {
			if f := fields[i]; f.Offset != want.offset || f.Type.Size() != want.size {
				t.Errorf("%s: field %s has %d bytes at %d, and %d at %d in C",
					l.name, f.Name, f.Type.Size(), f.Offset, want.size, want.offset)
			}
		}
	}
}

// TestUnions stores members of unions, and finds them where C has them.
func TestUnions(t *testing.T) {
	var p GraphNodeParams
	p.Memset().Pitch = 7 // the union has no name of its own
	at := uintptr(unsafe.Pointer(p.Memset())) - uintptr(unsafe.Pointer(&p))
	if at != 16 || p.GraphNodeParamsUnion[1] != 7 {
		t.Errorf("the members begin at %d, and have the words %v", at, p.GraphNodeParamsUnion)
	}
	var op StreamBatchMemOpParams
	op.WriteValue().Operation = CU_STREAM_MEM_OP_WRITE_VALUE_64
	*op.WriteValue().Value64() = 1 << 40
	if *op.Operation() != CU_STREAM_MEM_OP_WRITE_VALUE_64 || op[2] != 1<<40 {
		t.Errorf("the operation is %d, and the words %v", *op.Operation(), op)
	}
}

// TestAligned aligns values at every position that the heap may give them.
func TestAligned(t *testing.T) {
	memory := new([4]TensorMap)
	for i := range uintptr(128 / 8) {
		p := (*[2]TensorMap)(unsafe.Add(unsafe.Pointer(memory), 8*i))
		q := aligned(p, 128)
		at, first, second := uintptr(unsafe.Pointer(q)), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&p[1]))
		if at%128 != 0 || at < first || at > second {
			t.Errorf("%#x is aligned at %#x", unsafe.Pointer(p), at)
		}
	}
}

// TestWorkqueueConfig writes a configuration of work queues into a resource, where C has it.
func TestWorkqueueConfig(t *testing.T) {
	var r DevResource
	for i := range r {
		r[i] = 0xfeedface_00000000 // the driver's own
	}
	want := DevWorkqueueConfigResource{
		Device: 3, WqConcurrencyLimit: 1 << 31, SharingScope: CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED,
	}
	r.SetWorkqueueConfig(want)
	inC := (*struct {
		Type  int32
		Own   [92]byte
		Its   DevWorkqueueConfigResource
		Other [9]uint32
	})(unsafe.Pointer(&r))
	if inC.Type != CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG || inC.Its != want {
		t.Errorf("C sees %+v of type %d, want %+v", inC.Its, inC.Type, want)
	}
	if uint32(r[0]>>32) != 0xfeedface || inC.Other[0] != 0xfeedface {
		t.Errorf("the driver's words have changed: %#x", r)
	}
	if got, is := r.WorkqueueConfig(); !is || got != want {
		t.Errorf("%+v, %v, want %+v", got, is, want)
	}
	r.SetSM(DevSmResource{SmCount: 8})
	if _, is := r.WorkqueueConfig(); is {
		t.Error("multiprocessors are work queues")
	}
}

// TestSM reads multiprocessors out of a resource, where C has them.
func TestSM(t *testing.T) {
	want := DevSmResource{
		SmCount: 8, MinSmPartitionSize: 1 << 31, SmCoscheduledAlignment: 2, Flags: 1 << 30, LocalityDomainId: 1,
	}
	var r DevResource
	inC := (*struct {
		Type int32
		Own  [92]byte
		Its  DevSmResource
	})(unsafe.Pointer(&r))
	inC.Type, inC.Its = CU_DEV_RESOURCE_TYPE_SM, want
	if got, is := r.SM(); !is || got != want || r.SMCount() != 8 {
		t.Errorf("%+v, %v, and %d multiprocessors, want %+v", got, is, r.SMCount(), want)
	}
	inC.Its = DevSmResource{}
	if r.SetSM(want); inC.Its != want || inC.Own != [92]byte{} {
		t.Errorf("the resource is set to %+v and %v, want %+v", inC.Its, inC.Own, want)
	}
	inC.Type = CU_DEV_RESOURCE_TYPE_WORKQUEUE
	if got, is := r.SM(); is || got != (DevSmResource{}) {
		t.Errorf("%+v, %v of another type", got, is)
	}
}

// TestLocalizedID writes a locality domain where C has it.
func TestLocalizedID(t *testing.T) {
	l := MemLocation{Type: CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN, ID: LocalizedID(3, 200)}
	inC := (*struct {
		Type             int32
		DeviceID, Domain uint8
	})(unsafe.Pointer(&l))
	if inC.Type != 6 || inC.DeviceID != 3 || inC.Domain != 200 {
		t.Errorf("C sees %+v", *inC)
	}
}

// TestNewerMembers checks that members of newer releases are in bytes that the struct had before, or
// behind it in the union of node parameters, and are zero in a program that does not know them.
func TestNewerMembers(t *testing.T) {
	var p GraphNodeParams
	*p.Host() = HostNodeParamsV2{Fn: 1, UserData: 2}
	if p.GraphNodeParamsUnion != (GraphNodeParamsUnion{1, 2}) {
		t.Errorf("a host node of CUDA 13.0 is %v", p.GraphNodeParamsUnion)
	}
	p.Host().SyncMode = CU_HOST_TASK_SPINWAIT
	*p.Host().GCtx() = 7
	if p.GraphNodeParamsUnion != (GraphNodeParamsUnion{1, 2, CU_HOST_TASK_SPINWAIT, 7}) {
		t.Errorf("a host node of CUDA 13.4 is %v", p.GraphNodeParamsUnion)
	}
}
