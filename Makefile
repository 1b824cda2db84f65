# Targets for people. What is checked on every change is .ci/run.

# Flags for the test targets: make test TESTFLAGS=-v
TESTFLAGS =

.PHONY: help test race lint generate bench model explore fuzz soak ci gpu release

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

test: ## run the tests; needs neither a C compiler nor a GPU
	CGO_ENABLED=0 go test -timeout 30m $(TESTFLAGS) ./...

race: ## run the tests under the race detector, and check the order of locks (needs a C compiler)
	go test -race -tags lockorder -timeout 1h $(TESTFLAGS) ./...

lint: ## check the format, vet and staticcheck, as CI does
	@.ci/run format vet staticcheck

generate: ## write the generated files anew
	go generate ./...

bench: ## run the benchmarks
	CGO_ENABLED=0 go test -run '^$$' -bench . -benchmem ./...

model: ## run ten million operations against the model of handles (minutes; needs a C compiler)
	go test ./cu -run TestHandleModel -race -model.ops=10000000 -timeout 60m

explore: ## explore more schedules of lock-free code, and leave out each of its operations (minutes)
	go test -tags explore ./internal/explore ./internal/handle -timeout 60m -explore.preemptions=3 -explore.random=20000
	go test -tags explore ./internal/handle -timeout 60m -run TestMutations -handle.mutate
	go test -tags explore ./internal/watch -timeout 60m -explore.random=20000
	go test -tags explore ./internal/watch -timeout 60m -run TestMutations -watch.mutate

fuzz: ## run a million random sequences of calls (minutes); TESTFLAGS=-fuzz.from=SEED goes on from there
	CGO_ENABLED=0 go test ./tests/fuzz -run TestSequences -v -timeout 2h -fuzz.n=1000000 $(TESTFLAGS)

soak: ## use, close and abandon everything for half an hour: nothing may grow; PURECU_TEST_GPU=1 adds the GPU
	CGO_ENABLED=0 go test ./tests/soak -v -timeout 1h -soak.for=10m -soak.heap=300 -soak.slopes=20m $(TESTFLAGS)
	CGO_ENABLED=0 go test ./cusim -v -timeout 1h -run TestNVMLChaos -cusim.chaos=1000000

ci: ## run everything that CI runs
	@.ci/run

gpu: ## build the bundle of tests for a machine with a GPU, into build/gpu
	tests/gpu/build build/gpu

release: ## make the files of a release in build/release (needs C compilers for amd64 and arm64)
	cd tools && go run ./release -o ../build/release
