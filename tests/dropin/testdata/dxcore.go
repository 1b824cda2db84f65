// Package dxcore takes the place of the C files of the container toolkit's internal/dxcore, which only WSL needs.
package dxcore

import "errors"

type (
	context struct{ initialized int }
	adapter struct{}
)

func initContext() (*context, error) { return nil, errors.New("dxcore needs cgo") }

func (c context) deinitContext() {}

func (c context) getAdapterCount() int { return 0 }

func (c context) getAdapter(int) adapter { return adapter{} }

func (a adapter) getDriverStorePath() string { return "" }
