package library

import "github.com/purecu/purecu/internal/core"

// State returns what a Library refers to.
func State(l *Library) *core.Library { return l.core }
