package core

// Value is the state of a value of cu, such as the Span of a cu.Span. The value embeds it, by an alias that is not
// exported, and copies of the value have states of their own: a Ref refers to one state instead.
type Value[T any] struct{ v T }

// ValueTo returns a Value with a state.
func ValueTo[T any](v T) Value[T] { return Value[T]{v} }

// ValueIn returns the state for package cu, which has the Value itself.
func ValueIn[T any](r *Value[T]) *T { return &r.v }

// ValueFrom is ValueIn for a state of few words, which can stay in registers then.
func ValueFrom[T any](r Value[T]) T { return r.v }

func (r *Value[T]) value() *T { return &r.v }

// HasValue is a pointer to a value of cu with a state of type T. The interface is sealed, as Has is.
type HasValue[T any] interface{ value() *T }

// ValueOf returns the state of a value of cu. The pointer in h must not be nil.
func ValueOf[T any](h HasValue[T]) *T { return h.value() }
