package tenureflow

import (
	"errors"

	"go.temporal.io/sdk/temporal"
)

// Refused says that the server would not do it. Return Failure of it, or it as it is: the workflow then fails, with the
// code as the type of the failure only in the first case.
type Refused struct {
	// Code is a stable name, such as `busy`, `timed_out` or `unknown_pool`.
	Code    string
	Message string
	// Advice says what to do now.
	Advice string
	// Retry says whether the same may succeed later.
	Retry bool
	// Details is all that the server says about it, as in its API.
	Details map[string]any
}

func (r *Refused) Error() string { return r.Message }

// Failure is it as Temporal knows failures: its type is the code, and nobody tries again what cannot succeed.
func (r *Refused) Failure() error {
	return temporal.NewApplicationErrorWithOptions(r.Message, r.Code, temporal.ApplicationErrorOptions{
		NonRetryable: !r.Retry, Details: []any{r.Details},
	})
}

// Holders are those in the way, if it is for lack of room.
func (r *Refused) Holders() []string {
	var holders []string
	listed, _ := r.Details["holders"].([]any)
	for _, hold := range listed {
		if described, ok := hold.(map[string]any); ok {
			if holder, ok := described["holder"].(string); ok {
				holders = append(holders, holder)
			}
		}
	}
	return holders
}

// HoldLost says that the hold was over before its work was: an operator has ended it, or a lease could not be renewed in
// time.
type HoldLost struct{ Refused }

// Unwrap makes it a *Refused too.
func (h *HoldLost) Unwrap() error { return &h.Refused }

// refusal is what the server said, if it is what an activity failed with.
func refusal(err error) *Refused {
	var failed *temporal.ApplicationError
	if err == nil || !errors.As(err, &failed) || failed.Type() == "" {
		return nil
	}
	refused := &Refused{Code: failed.Type(), Message: failed.Message()}
	if failed.HasDetails() && failed.Details(&refused.Details) == nil {
		refused.Advice, _ = refused.Details["advice"].(string)
		refused.Retry, _ = refused.Details["retry"].(bool)
	}
	return refused
}
