package simnvml

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/nvml/raw"
)

// sample has members of all kinds that structs of NVML have.
type sample struct {
	Version uint32
	Small   uint8
	Signed  int32
	Big     uint64
	Real    float64
	Name    [8]byte
	List    [3]uint16
	Parts   [2]struct{ A, B uint32 }
}

// TestText checks that a value is read as it was.
func TestText(t *testing.T) {
	v := sample{Small: 255, Signed: -5, Big: math.MaxUint64, Real: 0.1, Name: [8]byte{'"', 0, ' ', '}', 0xff},
		List: [3]uint16{0, 7}}
	v.Parts[1].B = 3
	const want = `{Small:255 Signed:-5 Big:18446744073709551615 Real:0.1 Name:"\"\x00 }\xff" List:[0 7] Parts:[{} {B:3}]}`
	if got := Text(reflect.ValueOf(v)); got != want {
		t.Errorf("the text is %s, want %s", got, want)
	}
	var got sample
	if _, err := Read(want, reflect.ValueOf(&got)); err != nil || got != v {
		t.Errorf("%+v was read (%v)", got, err)
	}
	for _, wrong := range []string{"", "{", "{Small}", "{Small:256}", "{Signed:-3000000000}", "{Other:1}", "{List:[1 2}",
		`{Name:"a}`, "{} ", "{Parts:[{A:1}", "nil", "{Small:-1}"} {
		if _, err := Read(wrong, reflect.ValueOf(new(sample))); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
	list := make([]uint32, 2)
	if n, err := Read("[1 2 3]", reflect.ValueOf(list)); n != 3 || err != nil || list[1] != 2 {
		t.Errorf("%d elements are %v (%v)", n, list, err)
	}
}

// FuzzRead checks that Read accepts all texts or says what is wrong, and that what it reads has a text that it reads
// again.
func FuzzRead(f *testing.F) {
	for line := range strings.Lines(h200) {
		if cells := strings.Split(strings.TrimSpace(line), "\t"); len(cells) > 4 && len(line) < 300 {
			f.Add(cells[4])
		}
	}
	f.Add(`{Small:1 Signed:-1 Real:1e9 Name:"\x00" List:[1 2 3] Parts:[{A:1} {}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, v := range []any{new(sample), new(raw.GpuInstanceProfileInfoV2), new([4]raw.GpuInstancePlacement), new(uint32),
			new([20]byte), new(float64)} {
			if _, err := Read(text, reflect.ValueOf(v)); err != nil {
				continue
			}
			again := reflect.New(reflect.TypeOf(v).Elem())
			first := Text(reflect.ValueOf(v))
			if _, err := Read(first, again); err != nil || Text(again) != first {
				t.Errorf("%q is read as %s, and this as %s (%v)", text, first, Text(again), err)
			}
		}
	})
}

// TestGeneral checks the order in which rows are looked for.
func TestGeneral(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"device", "*"}, ""},
		{[]string{"device", "3", "*"}, "device 1000 *"},
		{[]string{"device", "3", "4"}, "device 3 1000,device 1000 1000"},
		{[]string{"device", "1000"}, ""},
		{[]string{"[{FieldId:7 ScopeId:3}]"}, "[{FieldId:7 ScopeId:0}],[{FieldId:329 ScopeId:0}]"},
		{[]string{"[{FieldId:7 ScopeId:0}]"}, "[{FieldId:329 ScopeId:0}]"},
	} {
		var got []string
		for list := range General(c.args) {
			got = append(got, strings.Join(list, " "))
		}
		if strings.Join(got, ",") != c.want {
			t.Errorf("%v: %v, want %s", c.args, got, c.want)
		}
	}
}

// TestArguments checks how rows are split.
func TestArguments(t *testing.T) {
	got := splitArguments("device [{FieldId:1 ScopeId:0}] *{Fan:1 Other:2} 3")
	if !slices.Equal(got, []string{"device", "[{FieldId:1 ScopeId:0}]", "*{Fan:1 Other:2}", "3"}) {
		t.Errorf("the arguments are %q", got)
	}
}
