module github.com/purecu/purecu

go 1.26

require (
	github.com/ebitengine/purego v0.11.3
	github.com/google/go-cmp v0.7.0
	go.uber.org/goleak v1.3.0
)
