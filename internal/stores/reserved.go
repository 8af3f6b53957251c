package stores

import (
	"strings"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// reserved is how the names of the engine's own stores begin. Frozen.
const reserved = "holdfast:"

// CheckName refuses the name of a store that a user may not have: one that is not well
// formed, or that the engine keeps for itself, such as those of effects.
func CheckName(name string) error {
	if err := execution.ValidateName("store name", name); err != nil {
		return err
	}
	if strings.HasPrefix(name, reserved) {
		return &execution.InvalidError{What: "store name", Value: name, Reason: `begins with "` + reserved + `", as the engine's own stores do; choose another name`}
	}
	return nil
}
