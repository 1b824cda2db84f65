package library

import "github.com/purecu/purecu/internal/loaded"

// State returns what a Library refers to.
func State(l *Library) *loaded.Library { return l.core }
