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

var fuzzTopic = flag.String("fuzz.topic", "", "the one `topic` of all sequences of TestCalls: "+
	strings.Join(slices.Sorted(maps.Keys(denseTopics)), " or "))

// topicsOf returns the topics of sequences: one dense topic, or all others if the name is empty.
func topicsOf(t *testing.T, name string) []callTopic {
	if name == "" {
		return callTopics
	}
	dense, is := denseTopics[name]
	if !is {
		t.Fatalf("-fuzz.topic=%s: there is no such topic", name)
	}
	return []callTopic{dense}
}
