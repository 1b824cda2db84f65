# hashcat: two kinds of hashes
# packages: hashcat libnvrtc12
# note: hashcat compiles its kernels with NVRTC, to PTX. Each test finds the password of hashcat's own example of a kind: MD5 and SHA1.
ln -sf libnvrtc.so.12 /usr/lib/x86_64-linux-gnu/libnvrtc.so
export OCL_ICD_VENDORS=/nonexistent
seconds=300

# crack KIND: finds the password of the example.
crack() {
	local hash word
	hash=$(hashcat --example-hashes -m "$1" | sed -n 's/^ *Example.Hash\.*: //p')
	word=$(hashcat --example-hashes -m "$1" | sed -n 's/^ *Example.Pass\.*: //p')
	printf '%s\n' first "$word" last >"words.$1"
	hashcat --potfile-disable --logfile-disable --hwmon-disable -m "$1" -w 1 "$hash" "words.$1"
}

export -f crack
for kind in 0 100; do # MD5, SHA1
	check "$kind" bash -c 'crack "$1"' - $kind
done
