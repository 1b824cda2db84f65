package dl

// RTLD_DEEPBIND is a flag of glibc's.
const RTLD_DEEPBIND = 8
