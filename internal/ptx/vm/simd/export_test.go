package simd

// Functions are the functions of instructions, for tests.
var Functions = functions
