# Functions of the scripts that fetch packages of Debian, which read this file: where the packages come from. They use the
# mirror that this machine uses, with a configuration of apt's of their own.

# mirror: the URIs and Signed-By fields, as deb822, of the machine's first apt
# entry whose suite is a Debian release (not its updates or security suite).
# Reads deb822 (*.sources) and one-line (*.list) entries on stdin.
mirror() {
	awk '
	function release(suites,   s, i, n) {
		n = split(suites, s, " ")
		for (i = 1; i <= n; i++)
			if (s[i] ~ /^(buster|bullseye|bookworm|trixie|forky|duke|sid|(old)*stable|testing|unstable)$/) return 1
		return 0
	}
	function emit(uris, signed) {
		print "URIs: " uris
		if (signed != "") print "Signed-By:" signed
		exit
	}
	function stanza() {
		if ((" " field["types"] " ") ~ /[ \t]deb[ \t]/ && tolower(field["enabled"]) !~ /no|false|off|0/ && release(field["suites"]))
			emit(field["uris"], field["signed-by"])
		delete field
		key = ""
	}
	/^[ \t]*#/ { next }
	/^[ \t]*$/ { stanza(); next }
	/^deb[ \t]/ {	# deb [option=value ...] uri suite component...
		stanza()
		line = $0; options = ""
		if (match(line, /\[[^]]*\]/)) {
			options = substr(line, RSTART + 1, RLENGTH - 2)
			line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
		}
		split(line, part, " ")
		if (!release(part[3])) next
		signed = ""
		n = split(options, option, " ")
		for (i = 1; i <= n; i++)
			if (sub(/^signed-by=/, "", option[i])) { signed = " " option[i]; gsub(",", " ", signed) }
		emit(part[2], signed)
	}
	/^[ \t]/ { if (key != "") field[key] = field[key] "\n" $0; next }
	match($0, /^[A-Za-z-]+:/) {
		key = tolower(substr($0, 1, RLENGTH - 1))
		field[key] = substr($0, RLENGTH + 1)
		if (key != "signed-by") sub(/^[ \t]+/, "", field[key])
	}
	END { stanza() }
	'
}

# sources: every apt source of this machine, an empty line after each file.
sources() {
	local file
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
		if [[ -r $file ]]; then cat "$file"; echo; fi
	done
}
