package simnvml

import "github.com/purecu/purecu/nvml/raw"

// linkField is what a field says of NVLinks: of one or, with all, of the sum of all.
type linkField struct {
	number uint32
	all    bool
	value  func(l *link) uint64
}

// linkValues are the fields whose scope is the number of an NVLink.
var linkValues = map[uint32]func(l *link) uint64{
	raw.NVML_FI_DEV_NVLINK_GET_STATE:         func(l *link) uint64 { return uint64(bit(!l.down)) },
	raw.NVML_FI_DEV_NVLINK_GET_SPEED:         (*link).speed,
	raw.NVML_FI_DEV_NVLINK_GET_VERSION:       func(l *link) uint64 { return uint64(l.version) },
	raw.NVML_FI_DEV_NVLINK_GET_POWER_STATE:   func(*link) uint64 { return raw.NVML_NVLINK_POWER_STATE_HIGH_SPEED },
	raw.NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID:  func(l *link) uint64 { return uint64(l.remote) },
	raw.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY:   linkErrors(raw.NVML_NVLINK_ERROR_DL_REPLAY),
	raw.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY: linkErrors(raw.NVML_NVLINK_ERROR_DL_RECOVERY),
	raw.NVML_FI_DEV_NVLINK_ERROR_DL_CRC:      linkErrors(raw.NVML_NVLINK_ERROR_DL_CRC_FLIT),
}

func linkErrors(kind raw.NvLinkErrorCounter) func(l *link) uint64 {
	return func(l *link) uint64 { return l.errors[kind] }
}

// speed returns how fast an NVLink is, in MB/s.
func (l *link) speed() uint64 {
	if l.down {
		return 0
	}
	return l.most
}

// oldLinkFields are the fields with the number of an NVLink in their names, by the first one: those of the links 0 to 5
// and the one of all are next to each other, and those of the links 6 to 11.
var oldLinkFields = []struct {
	first, total, more uint32
	value              func(l *link) uint64
}{
	{raw.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0, raw.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
		raw.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6, linkErrors(raw.NVML_NVLINK_ERROR_DL_CRC_FLIT)},
	{raw.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0, raw.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
		raw.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6, linkErrors(raw.NVML_NVLINK_ERROR_DL_CRC_DATA)},
	{raw.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0, raw.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
		raw.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6, linkErrors(raw.NVML_NVLINK_ERROR_DL_REPLAY)},
	{raw.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0, raw.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
		raw.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6, linkErrors(raw.NVML_NVLINK_ERROR_DL_RECOVERY)},
	{raw.NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L0, raw.NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL,
		raw.NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L6, linkErrors(raw.NVML_NVLINK_ERROR_DL_ECC_DATA)},
	{raw.NVML_FI_DEV_NVLINK_SPEED_MBPS_L0, 0, raw.NVML_FI_DEV_NVLINK_SPEED_MBPS_L6, (*link).speed},
}

// linkFieldOf returns what a field says of NVLinks, if it says something of them.
func linkFieldOf(f *raw.FieldValue) (l linkField, ok bool) {
	if value, ok := linkValues[f.FieldId]; ok {
		return linkField{number: f.ScopeId, value: value}, true
	}
	for _, o := range oldLinkFields {
		switch id := f.FieldId; {
		case id >= o.first && id < o.first+6:
			return linkField{number: id - o.first, value: o.value}, true
		case id >= o.more && id < o.more+6:
			return linkField{number: 6 + id - o.more, value: o.value}, true
		case id == o.total && id != 0:
			return linkField{all: true, value: o.value}, true
		}
	}
	return l, false
}

// setLinkField sets the value of a field about NVLinks. The caller holds mu.
func setLinkField(f *raw.FieldValue, g *gpu) {
	if len(g.links) == 0 {
		return
	}
	set := func(r raw.Return, v uint64) {
		f.NvmlReturn, f.ValueType = r, raw.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
		*f.Value.UllVal() = v
	}
	switch f.FieldId {
	case raw.NVML_FI_DEV_NVLINK_LINK_COUNT:
		set(raw.NVML_SUCCESS, uint64(len(g.links)))
		f.ValueType = raw.NVML_VALUE_TYPE_UNSIGNED_INT
		return
	case raw.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON:
		set(raw.NVML_SUCCESS, g.links[0].most)
		return
	}
	field, ok := linkFieldOf(f)
	switch {
	case !ok:
	case field.all:
		sum := uint64(0)
		for i := range g.links {
			sum += field.value(&g.links[i])
		}
		set(raw.NVML_SUCCESS, sum)
	case field.number >= uint32(len(g.links)):
		set(raw.NVML_ERROR_INVALID_ARGUMENT, 0)
	default:
		set(raw.NVML_SUCCESS, field.value(&g.links[field.number]))
		switch f.FieldId {
		case raw.NVML_FI_DEV_NVLINK_GET_STATE, raw.NVML_FI_DEV_NVLINK_GET_SPEED, raw.NVML_FI_DEV_NVLINK_GET_VERSION,
			raw.NVML_FI_DEV_NVLINK_GET_POWER_STATE, raw.NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID:
			f.ValueType = raw.NVML_VALUE_TYPE_UNSIGNED_INT // as recorded, with an error
		}
	}
}
