package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTimeline(t *testing.T) {
	const ms = time.Millisecond
	kernel := func(name string, from, to time.Duration) span { return span{Name: name, From: from, To: to} }
	wait := func(from, to time.Duration) span { return span{From: from, To: to, Waiting: true} }
	for _, tt := range []struct {
		name  string
		width int
		lanes []lane
		links []link
		want  string
	}{
		{"nothing", 80, nil, nil, ""},
		{"an empty lane", 80, []lane{{"stream 1", nil}}, nil, ""},
		{"one kernel", 50, []lane{{"stream 1", []span{kernel("A", 0, 40*ms)}}}, nil, `
ms        0         10        20        30
          |---------|---------|---------|---------
stream 1  [============== A 40.0ms ==============]`},
		{"a dependency", 70, []lane{
			{"stream 1", []span{kernel("A", 0, 12*ms), kernel("B", 12*ms, 30*ms)}},
			{"stream 2", []span{wait(0, 12*ms), kernel("C", 12*ms, 21*ms), kernel("D", 21*ms, 27*ms)}},
		}, []link{{12 * ms, 12 * ms, "C waits"}}, `
ms        0         5         10        15        20        25
          |---------|---------|---------|---------|---------|---------
stream 1  [====== A 12.0ms ======][============ B 18.0ms ============]
                                  |
                                  v C waits
stream 2  ..... waits 12.0ms .....[=== C 9.00ms ===][=== D ====]`},
		{"a late begin", 50, []lane{
			{"stream 1", []span{kernel("A", 0, 10*ms)}},
			{"stream 2", []span{kernel("C", 20*ms, 40*ms)}},
		}, []link{{10 * ms, 20 * ms, "C"}}, `
ms        0         10        20        30
          |---------|---------|---------|---------
stream 1  [== A ===]
                    |
                    +---------v C
stream 2                      [==== C 20.0ms ====]`},
		{"an arrow back", 50, []lane{
			{"stream 1", []span{kernel("A", 0, 40*ms)}},
			{"stream 2", []span{kernel("C", 20*ms, 40*ms)}},
		}, []link{{40 * ms, 20 * ms, "too early"}}, `
ms        0         10        20        30
          |---------|---------|---------|---------
stream 1  [============== A 40.0ms ==============]
                                                 |
                    too early v------------------+
stream 2                      [==== C 20.0ms ====]`},
		{"short spans are on top", 50, []lane{
			{"stream 1", []span{kernel("A", 0, 20*ms), kernel("B", 20*ms, 20*ms+1), kernel("C", 20*ms+1, 40*ms), kernel("D", 40*ms, 40*ms)}},
		}, nil, `
ms        0         10        20        30
          |---------|---------|---------|---------
stream 1  [==== A 20.0ms ====]B==== C 20.0ms ====D`},
		{"too narrow for names", 30, []lane{
			{"a very long name", []span{kernel("A", 0, 3*ms), kernel("B", 3*ms, 8*ms), wait(8*ms, 12*ms), kernel("C", 12*ms, 20*ms)}},
		}, nil, `
ms        0         10
          |---------|---------
a very lo [A][=B=]....[= C ==]`},
		{"microseconds", 60, []lane{{"s", []span{kernel("A", 1500, 3500)}}}, nil, `
us        0             1              2             3
          |-------------|--------------|-------------|------
s                              [======== A 2.00us =========]`},
		{"nanoseconds", 60, []lane{{"s", []span{kernel("A", 500, 1000)}}}, nil, `
ns        0         200       400       600       800
          |---------|---------|---------|---------|---------
s                                  [======= A 500ns =======]`},
		{"seconds", 60, []lane{{"s", []span{kernel("A", time.Second, 8*time.Second)}}}, nil, `
s         0            2           4            6
          |------------|-----------|------------|-----------
s               [================ A 7.00s =================]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := timeline(tt.width, tt.lanes, tt.links)
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), strings.Join(lines, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, strings.Join(lines, "\n"))
			}
			for _, line := range lines {
				if len(line) > tt.width {
					t.Errorf("this line is wider than %d: %q", tt.width, line)
				}
			}
		})
	}
}
