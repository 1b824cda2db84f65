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
	strings.Join(slices.Concat(slices.Sorted(maps.Keys(denseTopics)), slices.Sorted(maps.Keys(callTopics))), ", "))

// topicsOf returns the topics of one sequence after the other: the one with this name, or those of
// callTopics if the name is empty.
func topicsOf(t *testing.T, name string) (topics []callTopic) {
	if name == "" {
		for _, name := range shares {
			topics = append(topics, callTopics[name])
		}
		return topics
	}
	for _, m := range []map[string]callTopic{callTopics, denseTopics} {
		if topic, is := m[name]; is {
			return []callTopic{topic}
		}
	}
	t.Fatalf("-fuzz.topic=%s: there is no such topic", name)
	return nil
}
