module github.com/NVIDIA/go-nvml

go 1.26

require (
	github.com/ebitengine/purego v0.11.3
	github.com/google/uuid v1.6.0
	github.com/purecu/purecu v0.0.0
)

replace github.com/purecu/purecu => ../..
