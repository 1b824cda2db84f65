# hashcat: kinds of hashes
# packages: hashcat libnvrtc12
# note: hashcat compiles its kernels with NVRTC, to PTX. Each test finds the password of hashcat's own example of a kind.
ln -sf libnvrtc.so.12 /usr/lib/x86_64-linux-gnu/libnvrtc.so
export OCL_ICD_VENDORS=/nonexistent
seconds=300

# crack KIND: finds the password of the example.
crack() {
	local hash word
	hash=$(hashcat --example-hashes -m "$1" | sed -n 's/^ *Example.Hash\.*: //p')
	word=$(hashcat --example-hashes -m "$1" | sed -n 's/^ *Example.Pass\.*: //p')
	printf '%s\n' first "$word" last >"words.$1"
	hashcat --potfile-disable --logfile-disable --hwmon-disable -m "$1" -n 1 -u 1 -T 32 "$hash" "words.$1" && return
	return 1
}

export -f crack
for kind in 0 100 1000 1400; do
	check "$kind" bash -c 'crack "$1"' - $kind
done
