module example.com/double

go 1.26

require github.com/purecu/purecu v0.1.0
