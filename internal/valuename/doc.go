// Package valuename returns the names of values and flags for texts.
package valuename
