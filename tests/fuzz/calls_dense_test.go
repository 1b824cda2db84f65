package fuzz

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
)

// denseTopics are topics with so few functions that a sequence meets rare combinations of them.
var denseTopics = map[string]callTopic{
	"managed": {
		[]randomCall{large, batchesTopic.first[2], attributeCalls[0]},
		slices.Concat(named(batchCalls, "cuMemPrefetchBatchAsync", "cuMemDiscardBatchAsync",
			"cuMemDiscardAndPrefetchBatchAsync"),
			named(memoryCalls, "cuMemPrefetchAsync", "cuMemAdvise", "cuMemAdvise", "cuMemRangeGetAttribute",
				"cuMemRangeGetAttribute", "cuMemRangeGetAttribute", "cuMemRangeGetAttribute")),
	},
	"allocations": {
		graphCalls[:1],
		slices.Concat(named(anyNodeCalls, "cuGraphAddNode_v2, allocation", "cuGraphAddNode_v2, allocation",
			"cuGraphAddNode_v2, empty"), plainGraphCalls, updateCalls, updateCalls),
	},
}

var fuzzTopic = flag.String("fuzz.topic", "", "the `topics` of all sequences of TestCalls: "+
	strings.Join(slices.Concat(slices.Sorted(maps.Keys(denseTopics)), slices.Sorted(maps.Keys(callTopics))), ", "))

// topicsOf returns the topics of one sequence after the other: those with these names, or those of
// callTopics if there are no names.
func topicsOf(t *testing.T, names string) (list []callTopic) {
	each := shares
	if names != "" {
		each = strings.Split(names, ",")
	}
	for _, name := range each {
		topic, is := callTopics[name]
		if !is {
			topic, is = denseTopics[name]
		}
		if !is {
			t.Fatalf("-fuzz.topic=%s: there is no topic %q", names, name)
		}
		list = append(list, topic)
	}
	return list
}
