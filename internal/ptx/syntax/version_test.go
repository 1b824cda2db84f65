package syntax

import (
	"fmt"
	"strings"
	"testing"
)

// TestVersions reads what only some versions of PTX have, and what none has, as the compiler of an H200's driver does
// (580, CUDA 13.0).
func TestVersions(t *testing.T) {
	const never = 999
	for text, since := range map[string]int{
		".section .debug_info { .b8 1,2,255 .b16 65535 .b32 4294967296,0x1f .b64 1 }": 0,
		".section .debug_info { .b32 L .b64 .debug_str .b64 k }":                      0,
		".section .debug_info { .b32 .debug_str+4 }":                                  32,
		".section .debug_info { L: M: .b8 1 .b32 L }":                                 70,
		".section .debug_info { .b8 -128 .b16 -1 .b32 -1 .b64 -1 }":                   75,
		".section .debug_info { .b32 M-L }":                                           75,
		".section .debug_info { .b64 nowhere-L }":                                     75,
		".section .debug_info { .b16 M-L }":                                           never,
		".section .debug_info { .b32 M-L+4 }":                                         never,
		".section .debug_info { .b8 256 }":                                            never,
		".section .debug_info { .b16 65536 }":                                         never,
		".section .debug_info { .b32 -2147483649 }":                                   never,
		".section .debug_info { .b32 2,L }":                                           never,
		".section .debug_info { .b32 1+2 }":                                           never,
		".section .debug_info { .b32 1.5 }":                                           never,
		".section .debug_info { .b8 1; }":                                             never,
		".section .debug_info { .b8 1, }":                                             never,
		".section .debug_info { .b8 }":                                                never,
		".section .debug_info { .u32 1 }":                                             never,
		".section .debug_info { { .b8 1 } }":                                          never,
		".section .debug_info { garbage }":                                            never,
		".section debug_info { .b8 1 }":                                               never,
		".section .debug_info { .b8 1 } ;":                                            never,
		".func f(.param .b32 n, .param .align 8 .b8 v[]) { ret; }":                    60,
		".func f(.param .b8 v[], .param .b32 n) { ret; }":                             never,
		".func f(.param .b8 v[][2]) { ret; }":                                         never,
		".func f(.reg .b8 v[]) { ret; }":                                              never,
		".func (.param .b8 v[]) f() { ret; }":                                         never,
		".func (.reg .b32 a, .reg .b32 b) f() { ret; }":                               0,
		".func (.param .b32 a, .param .b32 b) f() { ret; }":                           never,
		".func (.reg .b32 a, .param .b32 b) f() { ret; }":                             never,
		".func f(.param .b64 p<2>) { ret; }":                                          never,
		".entry f(.param .b64 p<1>) { ret; }":                                         never,
		".entry f(.param .b64 p[2]) { ret; }":                                         0,
		".entry f(.param .v2 .b32 p) { ret; }":                                        never,
		".entry f(.param .f16x2 p) { ret; }":                                          never,
		".entry f(.param .pred p) { ret; }":                                           never,
	} {
		for _, version := range []int{23, 31, 32, 50, 60, 65, 70, 74, 75, 90} {
			_, err := Parse(fmt.Sprintf(".version %d.%d .target sm_20 ", version/10, version%10) + text)
			if (err == nil) != (version >= since) {
				t.Errorf("version %d: %s: %v", version, text, err)
			}
		}
	}
	for name, valid := range map[string]bool{"a": true, "$a": true, "_a": true, "__": true, "%a": true, "a$": true,
		"a.b": false, "a.": false, "%a.b": false, "_": false, "%": false, "a%": false, "1a": false, "a-b": false} {
		for _, text := range []string{".entry k() { .reg .b32 #; }", ".entry k() { .reg .b32 #<3>; }",
			".entry k() { #: ret; }", ".entry k() { #: .branchtargets A; A: ret; }", ".global .u32 #;",
			".entry k() { .shared .u32 #; }", ".func #() { ret; }", ".entry #() { ret; }", ".func f(); .alias #, f;",
			".entry k(.param .u64 #) { ret; }"} {
			if name == "_" && strings.Contains(text, ".param") {
				continue
			}
			_, err := Parse(".version 8.0 .target sm_80 " + strings.ReplaceAll(text, "#", name))
			if (err == nil) != valid {
				t.Errorf("%q in %q: %v", name, text, err)
			}
		}
	}
}
