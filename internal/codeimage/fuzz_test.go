package codeimage

import "testing"

// FuzzCheck looks for images on which the check itself runs over the end.
func FuzzCheck(f *testing.F) {
	elf := make([]byte, 64+64)
	copy(elf, "\x7fELF\x02\x01\x01")
	elf[40], elf[58], elf[60] = 64, 64, 1 // one section header, right behind the header
	for _, image := range []string{"", "\x7fELF", string(elf), ".version 6.0",
		"\x50\xed\x55\xba\x01\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\xb1\x43\x62\x46"} {
		f.Add([]byte(image))
	}
	f.Fuzz(func(t *testing.T, image []byte) {
		if Check(image) == "" && len(image) == 0 {
			t.Error("an empty image was taken")
		}
	})
}
