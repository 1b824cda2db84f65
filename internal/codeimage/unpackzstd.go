package codeimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
)

// zstdMagic begins a frame of Zstandard (RFC 8878).
const zstdMagic = "\x28\xb5\x2f\xfd"

// The limits of the format.
const (
	mostBlock   = 128 << 10 // bytes of a block when it is decompressed
	mostCodeLen = 11        // bits of a code of literals
)

// unpackZSTD decompresses a frame of Zstandard that has a size when it is decompressed. It does not
// compare the checksum of the frame.
func unpackZSTD(in []byte, size int) ([]byte, error) {
	d := zstdDecoder{
		out:            make([]byte, 0, min(size, 1<<20)),
		size:           size,
		repeated:       [3]int{1, 4, 8},
		literalLengths: lengthCodes(0, 16, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
		matchLengths:   lengthCodes(3, 32, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
	}
	blocks, err := zstdBlocks(in)
	if err != nil {
		return nil, err
	}
	for last := false; !last; {
		if len(blocks) < 3 {
			return nil, errDamaged
		}
		head := int(blocks[0]) | int(blocks[1])<<8 | int(blocks[2])<<16
		last, blocks = head&1 != 0, blocks[3:]
		kind, n := head>>1&3, head>>3
		stored := n
		if kind == 1 {
			stored = 1 // a byte that is repeated
		}
		if n > mostBlock || stored > len(blocks) || kind != 2 && n > size-len(d.out) {
			return nil, errDamaged
		}
		content := blocks[:stored]
		blocks = blocks[stored:]
		switch kind {
		case 0:
			d.out = append(d.out, content...)
		case 1:
			d.out = append(d.out, bytes.Repeat(content, n)...)
		case 2:
			if !d.block(content) {
				return nil, errDamaged
			}
		default:
			return nil, errDamaged
		}
	}
	if len(d.out) != size {
		return nil, errDamaged
	}
	return d.out, nil
}

// zstdBlocks returns what follows the header of a frame.
func zstdBlocks(in []byte) ([]byte, error) {
	if len(in) < 5 || !bytes.HasPrefix(in, []byte(zstdMagic)) {
		return nil, errDamaged
	}
	flags := in[4]
	if flags&3 != 0 {
		return nil, errors.New("the compressed data needs a dictionary")
	}
	// The sizes of the window and of the content. This decoder needs neither, as it keeps everything.
	header := 5 + [4]int{0, 2, 4, 8}[flags>>6]
	switch single := flags&0x20 != 0; {
	case !single:
		header++
	case flags>>6 == 0:
		header++
	}
	if flags&0x08 != 0 || header > len(in) {
		return nil, errDamaged
	}
	return in[header:], nil
}

// zstdDecoder decompresses the blocks of a frame, which use tables and distances of those before.
type zstdDecoder struct {
	out  []byte
	size int // of out in the end
	// literals is the code of the literals, and codes are those of the lengths of literals, of the
	// distances and of the lengths of matches.
	literals codeTable
	codes    [3]stateTable
	repeated [3]int // the last distances
	// literalLengths and matchLengths are the lengths that their codes stand for.
	literalLengths, matchLengths []lengthCode
}

// block decompresses a compressed block.
func (d *zstdDecoder) block(in []byte) bool {
	literals, in, ok := d.readLiterals(in)
	if !ok || len(in) == 0 {
		return false
	}
	end := min(d.size, len(d.out)+mostBlock)
	n := int(in[0])
	switch {
	case n < 128:
		in = in[1:]
	case n < 255 && len(in) >= 2:
		n, in = (n-128)<<8|int(in[1]), in[2:]
	case n == 255 && len(in) >= 3:
		n, in = int(in[1])+int(in[2])<<8+0x7f00, in[3:]
	default:
		return false
	}
	if n > 0 {
		if in, ok = d.readCodes(in); !ok {
			return false
		}
		if literals, ok = d.sequences(in, n, literals, end); !ok {
			return false
		}
	} else if len(in) != 0 {
		return false
	}
	if len(literals) > end-len(d.out) {
		return false
	}
	d.out = append(d.out, literals...)
	return true
}

// readLiterals returns the literals of a block, and what follows them.
func (d *zstdDecoder) readLiterals(in []byte) (literals, rest []byte, ok bool) {
	if len(in) == 0 {
		return nil, nil, false
	}
	kind, format := in[0]&3, in[0]>>2&3
	if kind < 2 { // as they are, or one that is repeated
		header, shift := 1, 3
		if format&1 != 0 {
			header, shift = 2+int(format>>1), 4
		}
		if len(in) < header {
			return nil, nil, false
		}
		n, stored := int(littleEndian(in[:header])>>shift), 1
		if kind == 0 {
			stored = n
		}
		if in = in[header:]; n > mostBlock || stored > len(in) {
			return nil, nil, false
		}
		if kind == 1 {
			return bytes.Repeat(in[:1], n), in[1:], true
		}
		return in[:n], in[n:], true
	}
	header, width, streams := 3, 10, 4
	switch format {
	case 0:
		streams = 1
	case 2:
		header, width = 4, 14
	case 3:
		header, width = 5, 18
	}
	if len(in) < header {
		return nil, nil, false
	}
	sizes := littleEndian(in[:header]) >> 4
	n, stored := int(sizes&(1<<width-1)), int(sizes>>width)
	if in = in[header:]; n > mostBlock || stored > len(in) {
		return nil, nil, false
	}
	in, rest = in[:stored], in[stored:]
	if kind == 2 {
		if d.literals, in, ok = readCodeTable(in); !ok {
			return nil, nil, false
		}
	}
	if len(d.literals.entries) == 0 {
		return nil, nil, false
	}
	literals = make([]byte, n)
	if streams == 1 {
		return literals, rest, d.literals.decode(literals, in)
	}
	const jumps = 6 // bytes with the sizes of the first three streams
	part := (n + 3) / 4
	if len(in) < jumps || 3*part > n {
		return nil, nil, false
	}
	table, in := in[:jumps], in[jumps:]
	left := literals
	for i := range 3 {
		size := int(binary.LittleEndian.Uint16(table[2*i:]))
		if size > len(in) || !d.literals.decode(left[:part], in[:size]) {
			return nil, nil, false
		}
		left, in = left[part:], in[size:]
	}
	return literals, rest, d.literals.decode(left, in)
}

// readCodes reads the tables of the codes of sequences, and returns what follows them.
func (d *zstdDecoder) readCodes(in []byte) (rest []byte, ok bool) {
	if len(in) == 0 || in[0]&3 != 0 {
		return nil, false
	}
	modes := in[0]
	in = in[1:]
	for i := range d.codes {
		c := zstdCodes[i]
		switch modes >> (6 - 2*i) & 3 {
		case 0:
			d.codes[i], ok = newStateTable(c.usual, c.usualBits)
		case 1: // one code only
			if ok = len(in) > 0 && int(in[0]) <= c.most; ok {
				d.codes[i] = stateTable{entries: []stateEntry{{symbol: in[0]}}}
				in = in[1:]
			}
		case 2:
			d.codes[i], in, ok = readStateTable(in, c.most, c.mostBits)
		case 3: // that of the block before
			ok = len(d.codes[i].entries) > 0
		}
		if !ok {
			return nil, false
		}
	}
	return in, true
}

// sequences executes n sequences: each appends literals, and then repeats what is at a distance. It
// returns the literals that are left.
func (d *zstdDecoder) sequences(in []byte, n int, literals []byte, end int) (left []byte, ok bool) {
	r, ok := newBackward(in)
	if !ok {
		return nil, false
	}
	var states [3]stateEntry
	for i := range d.codes {
		states[i] = d.codes[i].entries[r.read(d.codes[i].bits)]
	}
	for ; n > 0; n-- {
		distance := 1<<states[1].symbol + int(r.read(states[1].symbol))
		match, run := d.matchLengths[states[2].symbol], d.literalLengths[states[0].symbol]
		length := match.base + int(r.read(match.bits))
		run.base += int(r.read(run.bits))
		if n > 1 {
			for _, i := range []int{0, 2, 1} {
				s := states[i]
				states[i] = d.codes[i].entries[int(s.base)+int(r.read(s.bits))]
			}
		}
		distance = d.distance(distance, run.base == 0)
		if r.at < 0 || run.base > len(literals) || run.base+length > end-len(d.out) {
			return nil, false
		}
		d.out = append(d.out, literals[:run.base]...)
		literals = literals[run.base:]
		if distance <= 0 || distance > len(d.out) {
			return nil, false
		}
		for length > 0 { // it may overlap itself
			part := d.out[len(d.out)-distance:]
			part = part[:min(length, len(part))]
			d.out = append(d.out, part...)
			length -= len(part)
		}
	}
	return literals, r.at == 0
}

// distance returns the distance that a value stands for. The values 1 to 3 stand for the last
// distances, and for other ones in a sequence without literals.
func (d *zstdDecoder) distance(value int, noLiterals bool) int {
	r := &d.repeated
	if value > 3 {
		*r = [3]int{value - 3, r[0], r[1]}
		return r[0]
	}
	if noLiterals {
		value++
	}
	switch value {
	case 2:
		*r = [3]int{r[1], r[0], r[2]}
	case 3:
		*r = [3]int{r[2], r[0], r[1]}
	case 4:
		*r = [3]int{r[0] - 1, r[0], r[1]}
	}
	return r[0]
}

// A backward reads bits from the end of a stream to its beginning.
type backward struct {
	in []byte
	at int // bits that are left; less than 0 if more were read than there are
}

// newBackward returns the reader of a stream, whose highest bit marks its end.
func newBackward(in []byte) (backward, bool) {
	if len(in) == 0 || in[len(in)-1] == 0 {
		return backward{}, false
	}
	return backward{in, 8*(len(in)-1) + bits.Len8(in[len(in)-1]) - 1}, true
}

// read reads the next n bits, at most 32. Bits before the beginning are 0.
func (r *backward) read(n uint8) uint32 {
	v := r.peek(n)
	r.at -= int(n)
	return v
}

// peek returns what read does, and reads nothing.
func (r *backward) peek(n uint8) uint32 {
	low, missing := r.at-int(n), 0
	if low < 0 {
		low, missing = 0, -low
	}
	if missing >= int(n) {
		return 0
	}
	var v uint64
	if i := low / 8; i+8 <= len(r.in) {
		v = binary.LittleEndian.Uint64(r.in[i:])
	} else {
		v = littleEndian(r.in[i:])
	}
	return uint32(v >> (low % 8) & (1<<(int(n)-missing) - 1) << missing)
}

// littleEndian returns the number in at most 8 bytes.
func littleEndian(b []byte) (v uint64) {
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	return v
}

// A codeTable decodes literals: the next bits, as many as the longest code has, are an index.
type codeTable struct {
	bits    uint8
	entries []codeEntry
}

type codeEntry struct{ symbol, bits uint8 }

// decode fills out from a stream, which must have nothing else.
func (t *codeTable) decode(out, in []byte) bool {
	r, ok := newBackward(in)
	if !ok {
		return false
	}
	for i := range out {
		e := t.entries[r.peek(t.bits)]
		r.at -= int(e.bits)
		out[i] = e.symbol
	}
	return r.at == 0
}

// readCodeTable reads the description of a codeTable: the weights of the symbols, the last of which
// follows from the others. Symbols of weight w have 2^(w-1) indices.
func readCodeTable(in []byte) (t codeTable, rest []byte, ok bool) {
	if len(in) == 0 {
		return t, nil, false
	}
	n := int(in[0])
	in = in[1:]
	var weights []uint8
	if n < 128 {
		if n > len(in) {
			return t, nil, false
		}
		if weights, ok = readWeights(in[:n]); !ok {
			return t, nil, false
		}
		in = in[n:]
	} else {
		n -= 127
		if stored := (n + 1) / 2; stored > len(in) {
			return t, nil, false
		}
		for i := range n {
			weights = append(weights, in[i/2]>>(4*(1-i%2))&15)
		}
		in = in[(n+1)/2:]
	}
	sum := 0
	for _, w := range weights {
		if w > mostCodeLen {
			return t, nil, false
		}
		sum += 1 << w >> 1
	}
	if sum == 0 || len(weights) > 255 {
		return t, nil, false
	}
	t.bits = uint8(bits.Len(uint(sum)))
	left := 1<<t.bits - sum
	if t.bits > mostCodeLen || left&(left-1) != 0 {
		return t, nil, false
	}
	weights = append(weights, uint8(bits.Len(uint(left))))
	for w := uint8(1); w <= t.bits; w++ {
		for symbol, own := range weights {
			if own == w {
				e := codeEntry{uint8(symbol), t.bits + 1 - w}
				for range 1 << w >> 1 {
					t.entries = append(t.entries, e)
				}
			}
		}
	}
	return t, in, true
}

// readWeights decompresses the weights of a codeTable, which two states produce in turn.
func readWeights(in []byte) (weights []uint8, ok bool) {
	const mostBits = 6
	t, in, ok := readStateTable(in, mostCodeLen+1, mostBits)
	if !ok {
		return nil, false
	}
	r, ok := newBackward(in)
	if !ok {
		return nil, false
	}
	states := [2]stateEntry{t.entries[r.read(t.bits)], t.entries[r.read(t.bits)]}
	if r.at < 0 {
		return nil, false
	}
	for i := 0; len(weights) < 255; i = 1 - i {
		s := states[i]
		weights = append(weights, s.symbol)
		next := r.read(s.bits)
		if r.at < 0 { // the other state has one more
			return append(weights, states[1-i].symbol), true
		}
		states[i] = t.entries[int(s.base)+int(next)]
	}
	return nil, false
}

// A stateTable decodes symbols (FSE): an entry has its symbol, and the next entry is at the base plus
// as many bits as it says.
type stateTable struct {
	bits    uint8
	entries []stateEntry
}

type stateEntry struct {
	symbol, bits uint8
	base         uint16
}

// readStateTable reads how often each symbol is in a table, and returns the table and what follows.
func readStateTable(in []byte, most int, mostBits uint8) (t stateTable, rest []byte, ok bool) {
	if len(in) == 0 {
		return t, nil, false
	}
	at, size := 4, uint8(in[0]&15+5)
	if size > mostBits {
		return t, nil, false
	}
	peek := func(n int) int { // at most 16 bits, which are 0 behind the end
		i := min(at/8, len(in))
		return int(littleEndian(in[i:min(i+4, len(in))]) >> (at % 8) & (1<<n - 1))
	}
	var counts []int16
	for left := 1 << size; left > 0; {
		// The values from 0 to left+1 take n bits, and the lowest ones one less.
		n := bits.Len(uint(left + 1))
		v := peek(n)
		if short, shorter := v&(1<<(n-1)-1), 1<<n-2-left; short < shorter {
			v, n = short, n-1
		} else if v >= 1<<(n-1) {
			v -= shorter
		}
		at += n
		count := v - 1
		counts = append(counts, int16(count))
		left -= max(count, -count)
		for more := 3; count == 0 && more == 3; { // more symbols that are absent
			more = peek(2)
			at += 2
			counts = append(counts, make([]int16, more)...)
			if at > 8*len(in) {
				return t, nil, false
			}
		}
		if left < 0 || len(counts) > most+1 || at > 8*len(in) {
			return t, nil, false
		}
	}
	t, ok = newStateTable(counts, size)
	return t, in[(at+7)/8:], ok
}

// newStateTable makes a table with 2^size entries. The number of entries of each symbol is in counts;
// -1 stands for one entry at the end of the table.
func newStateTable(counts []int16, size uint8) (t stateTable, ok bool) {
	n := 1 << size
	t = stateTable{size, make([]stateEntry, n)}
	next := make([]uint16, len(counts))
	end := n
	for symbol, c := range counts {
		next[symbol] = uint16(max(c, -c))
		if c < 0 {
			if end--; end < 0 {
				return t, false
			}
			t.entries[end].symbol = uint8(symbol)
		}
	}
	at := 0
	for symbol, c := range counts {
		for ; c > 0; c-- {
			t.entries[at].symbol = uint8(symbol)
			for at = (at + n>>1 + n>>3 + 3) & (n - 1); at >= end; {
				at = (at + n>>1 + n>>3 + 3) & (n - 1)
			}
		}
	}
	if at != 0 {
		return t, false
	}
	for i := range t.entries {
		e := &t.entries[i]
		x := next[e.symbol]
		next[e.symbol]++
		e.bits = size - uint8(bits.Len16(x)-1)
		e.base = x<<e.bits - uint16(n)
	}
	return t, true
}

// A lengthCode is a length: a base, and so many more bits.
type lengthCode struct {
	base int
	bits uint8
}

// zstdCodes has what the format says of the codes of lengths of literals, distances and lengths of
// matches: the table that is used if a block has none.
var zstdCodes = [3]struct {
	most                int // the largest code
	mostBits, usualBits uint8
	usual               []int16
}{
	{35, 9, 6, []int16{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1,
		-1, -1, -1, -1}},
	{31, 8, 5, []int16{1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}},
	{52, 9, 6, []int16{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
		1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}},
}

// lengthCodes returns codes for lengths from first on: those of single lengths, and then those with
// more bits. Each begins where the one before ends.
func lengthCodes(first, single int, more ...uint8) (list []lengthCode) {
	for range single {
		list = append(list, lengthCode{base: first})
		first++
	}
	for _, n := range more {
		list = append(list, lengthCode{first, n})
		first += 1 << n
	}
	return list
}
