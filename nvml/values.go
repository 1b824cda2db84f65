package nvml

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// Celsius is a temperature in degrees.
type Celsius int32

// String returns the temperature with its unit, such as "45 °C".
func (t Celsius) String() string { return strconv.Itoa(int(t)) + " °C" }

// Power is in milliwatts.
type Power uint32

// Watts returns the power in watts.
func (p Power) Watts() float64 { return float64(p) / 1000 }

// String returns the power with its unit, such as "312.5 W".
func (p Power) String() string { return strconv.FormatFloat(p.Watts(), 'f', -1, 64) + " W" }

// Energy is in millijoules.
type Energy uint64

// Joules returns the energy in joules.
func (e Energy) Joules() float64 { return float64(e) / 1000 }

// String returns the energy with its unit, such as "1204.5 J".
func (e Energy) String() string { return strconv.FormatFloat(e.Joules(), 'f', -1, 64) + " J" }

// MHz is a frequency of a clock in megahertz.
type MHz uint32

// String returns the frequency with its unit, such as "1980 MHz".
func (c MHz) String() string { return strconv.Itoa(int(c)) + " MHz" }

// Percent is a share of 100.
type Percent uint32

// String returns the share with its unit, such as "87 %".
func (p Percent) String() string { return strconv.Itoa(int(p)) + " %" }

// UUID identifies a GPU, as "GPU-" and 32 hexadecimal digits in five groups, or a MIG device, as "MIG-" and the same.
// It stays the same when the machine restarts.
type UUID string

// UUIDOf returns the UUID of a GPU whose bytes CUDA's API returns: package cu has the same type of bytes.
func UUIDOf[B ~[16]byte](b B) UUID {
	return UUID(fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16]))
}

// IsMIG reports whether the UUID is that of a MIG device.
func (u UUID) IsMIG() bool { return strings.HasPrefix(string(u), "MIG-") }

// Bytes returns the 16 bytes of the UUID, which CUDA's API uses.
func (u UUID) Bytes() (b [16]byte, err error) {
	_, digits, _ := strings.Cut(string(u), "-")
	groups := strings.Split(digits, "-")
	digits = strings.Join(groups, "")
	if len(groups) != 5 || len(digits) != 32 {
		return b, fmt.Errorf("nvml: %q is not a UUID", string(u))
	}
	for i := range b {
		n, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil {
			return [16]byte{}, fmt.Errorf("nvml: %q is not a UUID: %w", string(u), err)
		}
		b[i] = byte(n)
	}
	return b, nil
}

// PCIAddress is the place of a GPU on the PCI bus.
type PCIAddress struct {
	Domain, Bus, Device uint32
}

// String returns the address in the form of nvidia-smi, such as "00000000:17:00.0".
func (a PCIAddress) String() string {
	return fmt.Sprintf("%08X:%02X:%02X.0", a.Domain, a.Bus, a.Device)
}

// ParsePCIAddress returns the address that a text names, with or without the domain: "0000:17:00.0", "17:00.0". The
// function behind the point is 0 for every GPU, and may be left out.
func ParsePCIAddress(s string) (a PCIAddress, err error) {
	bad := func() (PCIAddress, error) {
		return PCIAddress{}, fmt.Errorf("nvml: %q is not a PCI address: the form is 0000:17:00.0", s)
	}
	place, function, has := strings.Cut(s, ".")
	parts := strings.Split(place, ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 3 || has && strings.Trim(function, "0") != "" {
		return bad()
	}
	for i, to := range []*uint32{&a.Domain, &a.Bus, &a.Device} {
		bits := 8
		if i == 0 {
			bits = 32
		}
		n, err := strconv.ParseUint(parts[i], 16, bits)
		if err != nil {
			return bad()
		}
		*to = uint32(n)
	}
	return a, nil
}

// text returns a string of C in a buffer.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

// sinceEpoch returns the time of a number of microseconds since 1970, or the zero Time for 0.
func sinceEpoch(microseconds uint64) time.Time {
	if microseconds == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(microseconds))
}

// truth returns whether a number of C is true.
func truth[T ~int32 | ~uint32](v T) bool { return v != 0 }

// number returns 1 for true, and 0 for false.
func number[T ~int32 | ~uint32 | ~uint64](b bool) T {
	if b {
		return 1
	}
	return 0
}

// unsupported reports whether an error says that the library or the device does not have something.
func unsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// list makes the calls for a list whose length the library says: first without a list, then with one that is long
// enough. The list may grow in between, so that another call is needed, but not for ever.
func list[T any](f func(n *uint32, list []T) raw.Return) ([]T, raw.Return) {
	var n, room uint32
	r := f(&n, nil)
	for range 16 {
		if r != raw.NVML_ERROR_INSUFFICIENT_SIZE && (r != raw.NVML_SUCCESS || n == 0) {
			break
		}
		n = max(n, room)
		room = n + n/4 + 2
		all := make([]T, room)
		n = room
		if r = f(&n, all); r == raw.NVML_SUCCESS {
			return all[:min(n, room)], r
		}
	}
	return nil, r
}

// convert returns a slice of numbers as one of another type.
func convert[T, F ~uint32](from []F) []T {
	to := make([]T, len(from))
	for i, v := range from {
		to[i] = T(v)
	}
	return to
}

// KiBPerSecond is a throughput.
type KiBPerSecond uint32

// String returns the throughput with its unit, such as "2048 KiB/s".
func (t KiBPerSecond) String() string { return strconv.Itoa(int(t)) + " KiB/s" }
